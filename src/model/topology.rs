//! TPU topologies and machine types, and the chips they stand for.

use std::fmt;
use std::str::FromStr;

/// A TPU topology `AxB` or `AxBxC`: every part a whole number above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    chips: i64,
}

impl Topology {
    /// The number of chips: the product of the parts.
    #[must_use]
    pub fn chips(self) -> i64 {
        self.chips
    }
}

/// A text that is no topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotATopology(String);

impl fmt::Display for NotATopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no topology, expected AxB or AxBxC, such as 2x2x1",
            self.0
        )
    }
}

impl std::error::Error for NotATopology {}

impl FromStr for Topology {
    type Err = NotATopology;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut chips: i64 = 1;
        let mut parts = 0;
        for part in text.split('x') {
            parts += 1;
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            let n: i64 = part
                .parse()
                .ok()
                .filter(|n| digits && *n > 0)
                .ok_or_else(|| NotATopology(text.to_owned()))?;
            chips = chips
                .checked_mul(n)
                .ok_or_else(|| NotATopology(text.to_owned()))?;
        }
        if (2..=3).contains(&parts) {
            Ok(Self { chips })
        } else {
            Err(NotATopology(text.to_owned()))
        }
    }
}

/// Chips of one machine of a GKE machine type: `ct5lp-hightpu-4t` has 4. `None` where the type
/// does not end in `-<number>t`.
#[must_use]
pub fn machine_chips(machine_type: &str) -> Option<i64> {
    let last = machine_type.rsplit('-').next()?;
    last.strip_suffix('t')?.parse().ok().filter(|n| *n > 0)
}
