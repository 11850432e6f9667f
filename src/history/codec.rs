//! How an object of the history is written: one JSON header line that says what follows and how
//! to tell that it is whole, then one JSON line for each entry.
//!
//! ```text
//! {"format":"megamon-log","version":1,"sequence":42,"epoch":7,"writer":"…","at":"…","entries":2,"bytes":213,"crc32":"9ae0daaf"}
//! {"record":"event","family":"job-set","key":"…","up":true,"ts":"…"}
//! {"record":"watermark","source":"nodes","at":"…","resourceVersion":"812"}
//! ```

use std::io::{BufRead, Write};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the form that is written, and the newest that is read.
const VERSION: u32 = 1;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Format {
    #[serde(rename = "megamon-log")]
    Log,
    #[serde(rename = "megamon-snapshot")]
    Snapshot,
}

/// The first line of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: Format,
    version: u32,
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    pub(super) writer: String,
    pub(super) at: Timestamp,
    entries: u64,
    bytes: u64,
    crc32: String,
}

/// An object that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Its first line is no header of ours.
    #[error("it does not begin with a header of a megamon history: {0}")]
    Foreign(serde_json::Error),
    /// It was written by a newer version.
    #[error(
        "it has version {0} of the form, and this program reads up to version {VERSION}: use a newer megamon"
    )]
    Newer(u32),
    /// It is another object than its name says.
    #[error("it says that it is number {found}, its name says {expected}")]
    Misplaced {
        /// By the header.
        found: u64,
        /// By the name.
        expected: u64,
    },
    /// It is shorter or longer than it says.
    #[error("it holds {found} bytes after its header where that says {expected}: it is torn")]
    Torn {
        /// Bytes that are there.
        found: u64,
        /// Bytes by the header.
        expected: u64,
    },
    /// Its checksum is another.
    #[error("its checksum is {found} where its header says {expected}: it is damaged")]
    Damaged {
        /// Computed.
        found: String,
        /// By the header.
        expected: String,
    },
    /// One of its lines does not decode.
    #[error("line {line} does not decode: {cause}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// Why.
        cause: serde_json::Error,
    },
}

pub(super) fn encode<T: Serialize>(
    format: Format,
    (sequence, epoch, writer, at): (u64, u64, &str, Timestamp),
    entries: impl IntoIterator<Item = T>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut body = Vec::new();
    let mut count = 0;
    for entry in entries {
        serde_json::to_writer(&mut body, &entry)?;
        body.push(b'\n');
        count += 1;
    }
    let header = Header {
        format,
        version: VERSION,
        sequence,
        epoch,
        writer: writer.to_owned(),
        at,
        entries: count,
        bytes: body.len() as u64,
        crc32: format!("{:08x}", crc32fast::hash(&body)),
    };
    let mut out = Vec::with_capacity(body.len() + 256);
    serde_json::to_writer(&mut out, &header)?;
    out.push(b'\n');
    out.write_all(&body).map_err(serde_json::Error::io)?;
    Ok(out)
}

/// Reads the header alone: whose object it is.
pub(super) fn header(bytes: &[u8], sequence: u64) -> Result<(Header, &[u8]), DecodeError> {
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    let header: Header = serde_json::from_slice(line).map_err(DecodeError::Foreign)?;
    if header.version > VERSION {
        return Err(DecodeError::Newer(header.version));
    }
    if header.sequence != sequence {
        return Err(DecodeError::Misplaced {
            found: header.sequence,
            expected: sequence,
        });
    }
    Ok((header, rest.get(1..).unwrap_or_default()))
}

/// Reads a whole object, and calls `each` with its entries in order.
pub(super) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    sequence: u64,
    mut each: impl FnMut(T),
) -> Result<Header, DecodeError> {
    let (header, body) = header(bytes, sequence)?;
    let found = body.len() as u64;
    if found != header.bytes {
        return Err(DecodeError::Torn {
            found,
            expected: header.bytes,
        });
    }
    let crc32 = format!("{:08x}", crc32fast::hash(body));
    if crc32 != header.crc32 {
        return Err(DecodeError::Damaged {
            found: crc32,
            expected: header.crc32,
        });
    }
    let mut lines = Vec::new();
    for (number, line) in body.lines().enumerate() {
        let at = number + 2;
        let line = line.map_err(|error| DecodeError::Line {
            line: at,
            cause: serde_json::Error::io(error),
        })?;
        lines.push(
            serde_json::from_str(&line).map_err(|cause| DecodeError::Line { line: at, cause })?,
        );
    }
    lines.into_iter().for_each(&mut each);
    Ok(header)
}
