//! The page for people: what this is, where things are, and how it is doing.

use std::fmt::{self, Write};

use jiff::Timestamp;

use crate::model::Family;
use crate::snapshot::Snapshot;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>MegaMon</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 48rem; padding: 0 1rem; color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1.5rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n, th.n { text-align: right; }
.bad { color: #b00020; }
h1 small { font-weight: normal; font-size: 1rem; color: #666; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #161616; } a { color: #8ab4f8; }
  th, td { border-color: #444; } .bad { color: #ff8a80; } h1 small { color: #aaa; }
}
</style>
</head>
<body>
";

/// The landing page.
pub(super) fn landing(snapshot: &Snapshot, now: Timestamp, probe_port: u16) -> String {
    let mut page = String::with_capacity(4096);
    // Writing to a string cannot fail.
    let _ = write(&mut page, snapshot, now, probe_port);
    page
}

fn write(page: &mut String, snapshot: &Snapshot, now: Timestamp, probe_port: u16) -> fmt::Result {
    page.push_str(HEAD);
    writeln!(
        page,
        "<h1>MegaMon <small>{}</small></h1>
<p>Availability, interruptions, recovery and provisioning of accelerator fleets on Kubernetes.</p>
<ul>
<li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><code>/livez</code>, <code>/readyz</code>: on port {probe_port}</li>
</ul>
<h2>Fleet</h2>
<table><tr><th>Family</th><th class=\"n\">Objects</th><th class=\"n\">Up</th><th class=\"n\">Down</th><th class=\"n\">Expected down</th></tr>",
        env!("CARGO_PKG_VERSION"),
    )?;
    for family in Family::ALL {
        family_row(page, snapshot, family)?;
    }
    page.push_str("</table>\n<h2>Sources</h2>\n<table><tr><th>Source</th><th>State</th><th>Last heard</th></tr>\n");
    for source in &snapshot.sources {
        let name = source.source.name();
        write!(page, "<tr><td>{name}</td>")?;
        match (&source.error, source.listed, source.absent) {
            (Some(error), _, _) => write!(page, "<td class=\"bad\">{}</td>", Escaped(error))?,
            (None, false, _) => write!(page, "<td class=\"bad\">not listed yet</td>")?,
            (None, true, true) => write!(page, "<td>not installed</td>")?,
            (None, true, false) => write!(page, "<td>ok</td>")?,
        }
        writeln!(page, "<td>{}</td></tr>", Ago(source.heard, now))?;
    }
    let history = &snapshot.history;
    page.push_str("</table>\n<h2>History</h2>\n<table><tr><th>State</th><th class=\"n\">Pending</th><th>Oldest</th><th>Last success</th></tr>\n<tr>");
    match (&history.error, history.replayed) {
        (Some(error), _) => write!(page, "<td class=\"bad\">{}</td>", Escaped(error))?,
        (None, false) => write!(page, "<td class=\"bad\">being read</td>")?,
        (None, true) => write!(page, "<td>ok</td>")?,
    }
    let oldest = Ago(history.oldest, now);
    let success = Ago(history.last_success, now);
    writeln!(
        page,
        "<td class=\"n\">{}</td><td>{oldest}</td><td>{success}</td></tr></table>\n</body>\n</html>",
        history.pending
    )
}

fn family_row(page: &mut String, snapshot: &Snapshot, family: Family) -> fmt::Result {
    let name = family.name();
    let judged = snapshot
        .families
        .get(family.index())
        .and_then(Option::as_ref);
    if judged.is_none() {
        return writeln!(
            page,
            "<tr><td>{name}</td><td colspan=\"4\">not judged</td></tr>"
        );
    }
    let (mut objects, mut up, mut expected) = (0_u64, 0_u64, 0_u64);
    for view in snapshot
        .objects(family)
        .filter(|view| !view.only_provisioning)
    {
        objects += 1;
        up += u64::from(view.availability.up);
        expected += u64::from(!view.availability.up && view.availability.expected_down);
    }
    let down = objects - up - expected;
    let class = if down > 0 { "n bad" } else { "n" };
    writeln!(
        page,
        "<tr><td>{name}</td><td class=\"n\">{objects}</td><td class=\"n\">{up}</td><td class=\"{class}\">{down}</td><td class=\"n\">{expected}</td></tr>"
    )
}

/// How long ago something was.
struct Ago(Option<Timestamp>, Timestamp);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Some(then), now) = self else {
            return f.write_str("-");
        };
        let seconds = now.duration_since(*then).as_secs().max(0);
        match seconds {
            0..60 => write!(f, "{seconds} s ago"),
            60..3600 => write!(f, "{} min ago", seconds / 60),
            3600..86_400 => write!(f, "{} h ago", seconds / 3600),
            _ => write!(f, "{} d ago", seconds / 86_400),
        }
    }
}

/// Text that stands for itself in HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
