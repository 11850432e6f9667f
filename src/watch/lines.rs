//! Splits the chunks of a watch's answer into lines.

/// A line longer than this is no event: the API server keeps objects below 3 MiB.
const LONGEST: usize = 32 << 20;

/// Chunks that came and lines that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Up to here lines were taken.
    taken: usize,
    /// Up to here there is no line end.
    searched: usize,
}

/// A line that does not end.
#[derive(Debug, thiserror::Error)]
#[error("an event is longer than {LONGEST} bytes")]
pub(super) struct TooLong;

impl Lines {
    /// Adds a chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), TooLong> {
        self.buffer.drain(..self.taken);
        self.searched = self.searched.saturating_sub(self.taken);
        self.taken = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > 1 << 20 {
            // One big event does not hold its memory for the life of the watch.
            self.buffer = Vec::new();
        }
        if self.buffer.len().saturating_add(chunk.len()) > LONGEST {
            return Err(TooLong);
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next whole line, without its end.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let unsearched = self.buffer.get(self.searched..)?;
        let Some(length) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched.saturating_add(length);
        let start = self.taken;
        self.taken = end.saturating_add(1);
        self.searched = self.taken;
        self.buffer.get(start..end)
    }

    /// Whether part of a line came whose end did not.
    pub(super) fn half(&self) -> bool {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        rest.iter().any(|byte| !byte.is_ascii_whitespace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\ntwo two\n\nthree\nhal";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk).unwrap();
                while let Some(line) = lines.next() {
                    got.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(got, ["one", "two two", "", "three"], "chunks of {size}");
            assert!(lines.half());
        }
    }

    #[test]
    fn nothing_is_left_after_a_line_end() {
        let mut lines = Lines::default();
        lines.push(b"one\n").unwrap();
        assert!(lines.half());
        assert_eq!(lines.next(), Some(&b"one"[..]));
        assert_eq!(lines.next(), None);
        assert!(!lines.half());
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        let mut pushed = 0;
        while lines.push(&chunk).is_ok() {
            assert_eq!(lines.next(), None);
            pushed += chunk.len();
            assert!(pushed <= LONGEST);
        }
        assert_eq!(pushed, LONGEST);
    }
}
