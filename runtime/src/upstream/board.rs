//! What a server says by itself.
//!
//! Answers for turning notifications, lines of standard error and lines that are no frames into what the queues of a
//! catalogue hold, and for handing progress to the call that it belongs to. Leaves out what is done about them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use devloop_core::catalogue::{ContentChange, ContentList, LogLine, Notice, ResourceChange, TaskChange};
use devloop_core::text::harmless;
use rmcp::model::ProgressToken;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::config::ServerConfig;
use super::wire::{Listener, request_id};
use super::{OURS, Sink, text};
use crate::call::Progress;

/// As many steps are kept that came before it was known which call they belong to.
const EARLY: usize = 16;

/// As many of the last lines of standard error are told when a program ends.
const LAST_WORDS: usize = 3;

/// The longest URI, or name of a task, in bytes.
const LONGEST_NAME: usize = 8 * 1024;

/// The longest text of a server that is passed on as one line.
const LINE_CHARS: usize = 2_000;

/// As many faults of which a server speaks are shown to everybody, for each connection.
const MOST_SHOWN: usize = 10;

/// Everything that one connection to a server hears.
pub(super) struct Board {
    server: Arc<str>,
    config: ServerConfig,
    sink: Arc<dyn Sink>,
    began: Instant,
    /// When the server last said anything, in milliseconds since `began`.
    heard: AtomicU64,
    /// The server says that its tools have changed.
    pub(super) tools_changed: Notify,
    revisions: AtomicU64,
    progress: Mutex<Steps>,
    last_words: Mutex<VecDeque<String>>,
    /// How many faults were shown.
    shown: AtomicUsize,
}

#[derive(Default)]
struct Steps {
    waiting: HashMap<ProgressToken, Going>,
    early: VecDeque<(ProgressToken, Progress)>,
}

struct Going {
    to: mpsc::UnboundedSender<Progress>,
    done: f64,
}

impl Going {
    /// Steps back and stands are not passed on: clients take them for a fault.
    fn send(&mut self, step: Progress) {
        if step.done > self.done {
            self.done = step.done;
            // Whoever asked may have gone.
            let _ = self.to.send(step);
        }
    }
}

impl Board {
    pub(super) fn new(server: Arc<str>, config: ServerConfig, sink: Arc<dyn Sink>, began: Instant) -> Self {
        Self {
            server,
            config,
            sink,
            began,
            heard: AtomicU64::new(0),
            tools_changed: Notify::new(),
            revisions: AtomicU64::new(0),
            progress: Mutex::default(),
            last_words: Mutex::default(),
            shown: AtomicUsize::new(0),
        }
    }

    /// When the server last said anything, in milliseconds since the beginning.
    pub(super) fn last_heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The steps of a request go there, until [`forget`](Self::forget).
    pub(super) fn follow(&self, token: &ProgressToken, to: mpsc::UnboundedSender<Progress>) {
        let mut steps = self.steps();
        let mut going = Going {
            to,
            done: f64::NEG_INFINITY,
        };
        let early = std::mem::take(&mut steps.early);
        for (of, step) in early {
            if of == *token {
                going.send(step);
            } else {
                steps.early.push_back((of, step));
            }
        }
        steps.waiting.insert(token.clone(), going);
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        self.steps().waiting.remove(token);
    }

    /// A line of the server's standard error, or about the server.
    pub(super) fn said(&self, level: &'static str, logger: &str, line: &str) {
        let line = text::cut(&self.config.redacted(line), LINE_CHARS);
        if logger == "stderr" {
            let mut last = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
            if last.len() == LAST_WORDS {
                last.pop_front();
            }
            last.push_back(text::cut(&line, 200));
        }
        self.log(LogLine {
            server: self.server.to_string().into(),
            level: level.into(),
            logger: Some(logger.to_owned()),
            data: Value::String(line),
        });
    }

    /// Hands on what was said, and shows it in this program's log: faults to everybody, as many as are read, and the rest
    /// to whoever asks for it. What is said here about a server is told there by itself.
    fn log(&self, line: LogLine) {
        if line.logger.as_deref() != Some(OURS) {
            let text = match &line.data {
                Value::String(text) => harmless(&self.config.redacted(text)),
                data => harmless(&self.config.redacted(&data.to_string())),
            };
            let (server, logger) = (&line.server, line.logger.as_deref().unwrap_or("its log"));
            let logger = harmless(logger);
            let is_fault = ["warning", "error", "critical", "alert", "emergency"].contains(&&*line.level);
            if is_fault && self.shown.fetch_add(1, Ordering::Relaxed) < MOST_SHOWN {
                tracing::warn!(%server, "an upstream server says ({logger}): {text}");
            } else {
                tracing::debug!(%server, "an upstream server says ({logger}): {text}");
            }
        }
        self.notice(Notice::Log(line));
    }

    /// The last lines of standard error.
    pub(super) fn last_words(&self) -> String {
        let last = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = last.iter().map(String::as_str).collect();
        lines.join(" / ")
    }

    /// What the program says from now on is another one's.
    pub(super) fn forget_words(&self) {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn notice(&self, notice: Notice) {
        self.sink.notice(notice);
    }

    /// The lists of content may be other ones than before.
    pub(super) fn content_changed(&self, lists: &[ContentList]) {
        for list in lists {
            self.notice(Notice::Content(ContentChange {
                server: self.server.to_string().into(),
                list: *list,
            }));
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self, params: &Value) {
        let (Some(token), Some(done)) = (request_id(&params["progressToken"]), params["progress"].as_f64()) else {
            return;
        };
        let token = ProgressToken(token);
        let step = Progress {
            done,
            total: params["total"].as_f64(),
            message: params["message"].as_str().map(|message| text::cut(message, LINE_CHARS)),
        };
        let mut steps = self.steps();
        if let Some(going) = steps.waiting.get_mut(&token) {
            going.send(step);
            return;
        }
        if steps.early.len() == EARLY {
            steps.early.pop_front();
        }
        steps.early.push_back((token, step));
    }
}

impl Listener for Board {
    fn heard(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    fn notified(&self, method: &str, mut params: Value) {
        let server = || self.server.to_string().into();
        // Names that are longer than any name are none; other texts are cut: what waits in a queue has a bound.
        let owned = |value: &Value| {
            value
                .as_str()
                .filter(|text| text.len() <= LONGEST_NAME)
                .map(str::to_owned)
        };
        let short = |value: &Value| value.as_str().map(|text| text::cut(text, LINE_CHARS));
        match method {
            "notifications/progress" => self.progress(&params),
            "notifications/tools/list_changed" => self.tools_changed.notify_one(),
            "notifications/resources/list_changed" => {
                self.content_changed(&[ContentList::Resources, ContentList::Templates]);
            }
            "notifications/prompts/list_changed" => self.content_changed(&[ContentList::Prompts]),
            "notifications/resources/updated" => {
                if let Some(uri) = owned(&params["uri"]) {
                    let revision = self.revisions.fetch_add(1, Ordering::Relaxed) + 1;
                    self.notice(Notice::Resource(ResourceChange {
                        server: server(),
                        uri,
                        revision,
                    }));
                }
            }
            "notifications/message" => {
                let data = params.get_mut("data").map(Value::take).unwrap_or_default();
                self.log(LogLine {
                    server: server(),
                    level: short(&params["level"]).unwrap_or_else(|| "info".to_owned()).into(),
                    // No server speaks for this program.
                    logger: short(&params["logger"]).filter(|logger| logger != OURS),
                    data: text::cut_json(data, 4 * LINE_CHARS),
                });
            }
            // The name that the first protocol version with tasks had, and the one of the extension.
            "notifications/tasks/status" | "notifications/tasks" => {
                if let (Some(task), Some(status)) = (owned(&params["taskId"]), owned(&params["status"])) {
                    self.notice(Notice::Task(TaskChange {
                        server: server(),
                        task,
                        status: status.into(),
                        message: short(&params["statusMessage"]),
                    }));
                }
            }
            _ => tracing::debug!(server = %self.server, method, "a notification that means nothing here"),
        }
    }

    fn garbage(&self, text: &str) {
        self.said("warning", "stdout", &format!("not a frame of the protocol: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use devloop_core::catalogue::{Offered, Refused, Replaced};
    use serde_json::json;

    use super::*;
    use crate::upstream::McpConfig;

    /// Keeps what it is told.
    #[derive(Default)]
    struct Kept(Mutex<Vec<Notice>>);

    impl Sink for Kept {
        fn tools(&self, server: &str, _: Vec<Offered>) -> Result<Replaced, Refused> {
            Err(Refused {
                server: server.to_owned(),
                reasons: Vec::new(),
            })
        }

        fn gone(&self, _: &str) {}

        fn notice(&self, notice: Notice) {
            self.0.lock().unwrap().push(notice);
        }
    }

    fn board() -> (Board, Arc<Kept>) {
        let text = br#"{"mcpServers": {"a": {"command": "x"}}}"#;
        let config = McpConfig::parse("mcp.json", text, |_| None).unwrap();
        let kept = Arc::new(Kept::default());
        let board = Board::new(
            "a".into(),
            config.servers["a"].clone(),
            Arc::clone(&kept) as _,
            Instant::now(),
        );
        (board, kept)
    }

    #[test]
    fn sixteen_steps_that_come_before_anybody_follows_are_kept() {
        for (steps, first) in [(16, 0), (17, 1)] {
            let (board, _) = board();
            for step in 0..steps {
                board.notified("notifications/progress", json!({"progressToken": 7, "progress": step}));
            }
            let (to, mut heard) = mpsc::unbounded_channel();
            board.follow(&ProgressToken(request_id(&json!(7)).unwrap()), to);
            let heard: Vec<f64> = std::iter::from_fn(|| heard.try_recv().ok())
                .map(|step| step.done)
                .collect();
            assert_eq!((heard.len(), heard[0]), (16, f64::from(first)));
        }
    }

    #[test]
    fn the_last_three_lines_of_standard_error_are_remembered_200_characters_of_each() {
        let (board, _) = board();
        for line in ["one", "two", "three", &"x".repeat(201)] {
            board.said("info", "stderr", line);
        }
        assert_eq!(board.last_words(), format!("two / three / {}…", "x".repeat(200)));
        board.said("info", "stderr", &"y".repeat(200));
        assert!(board.last_words().ends_with(&format!("/ {}", "y".repeat(200))));
    }

    #[test]
    fn texts_and_names_of_a_server_are_bounded() {
        let logged = |board: &Board, kept: &Kept, params: Value| {
            board.notified("notifications/message", params);
            match kept.0.lock().unwrap().pop() {
                Some(Notice::Log(line)) => line,
                other => panic!("{other:?}"),
            }
        };
        let (board, kept) = board();
        let line = logged(
            &board,
            &kept,
            json!({"logger": "x".repeat(2_000), "data": "d".repeat(8_000)}),
        );
        assert_eq!(
            (line.logger.unwrap().len(), line.data),
            (2_000, json!("d".repeat(8_000)))
        );
        let line = logged(
            &board,
            &kept,
            json!({"logger": "x".repeat(2_001), "data": "d".repeat(8_001)}),
        );
        let cut = |letter: &str, length: usize| format!("{}…", letter.repeat(length));
        assert_eq!(
            (line.logger.unwrap(), line.data),
            (cut("x", 2_000), json!(cut("d", 8_000)))
        );
        for (bytes, told) in [(8_192, 1), (8_193, 0)] {
            board.notified("notifications/resources/updated", json!({"uri": "u".repeat(bytes)}));
            assert_eq!(kept.0.lock().unwrap().drain(..).count(), told);
        }
    }
}
