//! Where texts for people go.
//!
//! Answers for standard output and error with colour only where it is wanted (`NO_COLOR`, no terminal), and for a reader
//! that went away (`devloop tools | head`) being no error of itself: only whoever has more to do than to print must look
//! (`Printer::is_open`). Answers also for what all commands write alike: tables, counts, sizes, sentences of others. Leaves
//! out what is printed.

pub(super) use devloop_core::text::harmless;
use devloop_core::text::{Seen, told_apart};
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Exit;

/// For the name of a thing.
pub(super) const NAME: Style = Style::new().bold();
/// For what went well.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// For what did not.
pub(super) const BAD: Style = AnsiColor::Red.on_default();
/// For what deserves a look.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// For what matters less.
pub(super) const FAINT: Style = Style::new().dimmed();

/// Prints, and remembers whether printing still works.
pub(super) struct Printer {
    out: anstream::AutoStream<io::Stdout>,
    failed: Option<io::Error>,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self {
            out: anstream::stdout(),
            failed: None,
        }
    }

    /// One line on standard output.
    pub(super) fn line(&mut self, text: impl fmt::Display) {
        if self.failed.is_none()
            && let Err(error) = writeln!(self.out, "{text}")
        {
            self.failed = Some(error);
        }
    }

    /// Text on standard output as it is.
    pub(super) fn raw(&mut self, text: &[u8]) {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(text)
        {
            self.failed = Some(error);
        }
    }

    /// JSON on standard output, on one line.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(text),
            Err(error) => self.failed = Some(error.into()),
        }
    }

    /// JSON on standard output, for reading.
    pub(super) fn pretty(&mut self, value: &impl serde::Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => self.failed = Some(error.into()),
        }
    }

    /// Whether anybody reads: printing has not failed, and nobody has closed the other end of a pipe or a socket.
    pub(super) fn is_open(&self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let stdout = io::stdout();
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let gone = PollFlags::ERR | PollFlags::HUP;
        // What cannot be asked is found out by the next write.
        poll(&mut polled, Some(&Timespec::default())).is_err() || !polled[0].revents().intersects(gone)
    }

    /// One line on standard error. That it may be gone is nobody's concern.
    #[expect(
        clippy::unused_self,
        reason = "a caller that can print can complain; the pair reads as one thing"
    )]
    pub(super) fn complain(&self, text: impl fmt::Display) {
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// The line `error: …` on standard error.
    pub(super) fn error(&self, text: impl fmt::Display) {
        self.complain(format_args!("{BAD}error{BAD:#}: {text}"));
    }

    /// Flushes, and turns output that could not be written into the exit code it deserves.
    pub(super) fn finish(mut self, exit: Exit) -> Exit {
        let error = self.failed.take().or_else(|| self.out.flush().err());
        match error {
            None => exit,
            // The reader has seen enough.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
            Some(error) => {
                self.error(format_args!("cannot write to standard output: {error}"));
                Exit::System
            }
        }
    }
}

/// JSON on one line, in which what is harmful or cannot be seen is escaped: it is the same JSON.
pub(super) fn json_line(value: &serde_json::Map<String, serde_json::Value>) -> String {
    let json = serde_json::to_string(value).expect("fields of JSON are JSON");
    if json.is_ascii() {
        return json;
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for (c, seen) in told_apart(&json) {
        if seen == Seen::No {
            // They can stand in texts only.
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// As many characters of a sentence stand in a table.
const SENTENCE: usize = 160;

/// A sentence of others on one line of a table: what is too long for that ends with an ellipsis.
pub(super) fn short(sentence: &str) -> String {
    let mut shown: String = harmless(&sentence.chars().take(SENTENCE + 1).collect::<String>());
    if shown.chars().count() > SENTENCE {
        shown = shown.chars().take(SENTENCE - 1).collect();
        shown.push('…');
    }
    shown
}

/// `1 tool`, `2 tools`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// `512 B`, `12.3 KiB`, `4.0 MiB`.
pub(super) fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    // In tenths, rounded half up.
    let (unit, size) = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1_u64 << 40),
    ]
    .into_iter()
    .rfind(|(_, size)| count >= *size)
    .unwrap_or(("KiB", 1 << 10));
    let tenths = (u128::from(count) * 10 + u128::from(size) / 2) / u128::from(size);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Rows with columns padded to equal width; the last column is not padded.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if index + 1 < N {
                    let missing = widths[index] - cell.chars().count() + 2;
                    line.extend(std::iter::repeat_n(' ', missing));
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_short_and_rounded() {
        let texts = [0, 1023, 1024, 1_075_000, 5 << 40].map(super::bytes);
        assert_eq!(texts, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let text = "a\u{200b}b \u{202e}c\u{feff} \u{e0041} \u{9b} é 👩\u{200d}💻 ✔\u{fe0f}";
        let serde_json::Value::Object(fields) = serde_json::json!({ text: [text, 1] }) else {
            unreachable!()
        };
        let line = super::json_line(&fields);
        let part = r"a\u200bb \u202ec\ufeff \udb40\udc41 \u009b é 👩‍💻 ✔️";
        assert_eq!(line, format!("{{\"{part}\":[\"{part}\",1]}}"));
        assert_eq!(serde_json::from_str::<serde_json::Map<_, _>>(&line).unwrap(), fields);
    }

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let rows = [["a", "bb", "c"].map(str::to_owned), ["ααα", "b", ""].map(str::to_owned)];
        assert_eq!(super::table(&rows), ["a    bb  c", "ααα  b"]);
    }
}
