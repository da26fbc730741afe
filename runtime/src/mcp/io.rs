//! Where bytes come from and go to.
//!
//! Answers for two pairs of pumps: threads over blocking files (a process's own stdin and stdout), and tasks over
//! async streams (sockets, in-memory pipes). Leaves out what the bytes mean.
//!
//! Stdin is read by a plain thread: a thread of the runtime's pool would keep the runtime from ending while it waits
//! for input, and a non-blocking stdin would change the file description of the parent as well.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::framing::{Frame, Framer, LINE_LIMIT};
use super::transport::Connection;
use crate::patient;

/// Linux pipes hold as much by default, so one read takes what there is.
const READ_SIZE: usize = 64 * 1024;

/// After each piece of this size it is noted that the client still reads.
const WRITE_SIZE: usize = 64 * 1024;

/// As many chunks are read ahead.
const CHUNKS_AHEAD: usize = 4;

/// Starts a thread that reads `source` to its end.
pub(super) fn read_in_thread(
    connection: Arc<Connection>,
    mut source: impl Read + AsFd + Send + 'static,
) -> std::io::Result<mpsc::Receiver<Vec<Frame>>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    std::thread::Builder::new().name("mcp-in".into()).spawn(move || {
        let mut framer = Framer::new(LINE_LIMIT);
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let read = patient::read(&mut source, &mut buffer);
            let (batch, next) = take_in(&connection, read, &buffer, &mut framer);
            if (!batch.is_empty() && sender.blocking_send(batch).is_err()) || next == Next::End {
                break;
            }
        }
    })?;
    Ok(receiver)
}

/// Starts a thread that writes what is queued to `sink`, a file because those have no buffer to flush.
pub(super) fn write_in_thread(connection: Arc<Connection>, mut sink: File) -> std::io::Result<()> {
    std::thread::Builder::new().name("mcp-out".into()).spawn(move || {
        let mut bytes = Vec::new();
        while connection.outbox.take_blocking(&mut bytes) {
            for chunk in bytes.chunks(WRITE_SIZE) {
                if let Err(error) = patient::write(&mut sink, chunk, |count| connection.outbox.written(count)) {
                    return fail(&connection, &error);
                }
            }
        }
    })?;
    Ok(())
}

/// Starts a task that reads `source` to its end.
pub(super) fn read_in_task(
    connection: Arc<Connection>,
    mut source: impl AsyncRead + Unpin + Send + 'static,
) -> mpsc::Receiver<Vec<Frame>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let mut framer = Framer::new(LINE_LIMIT);
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let read = source.read(&mut buffer).await;
            let (batch, next) = take_in(&connection, read, &buffer, &mut framer);
            if (!batch.is_empty() && sender.send(batch).await.is_err()) || next == Next::End {
                break;
            }
        }
    });
    receiver
}

/// Starts a task that writes what is queued to `sink`.
pub(super) fn write_in_task(connection: Arc<Connection>, mut sink: impl AsyncWrite + Unpin + Send + 'static) {
    tokio::spawn(async move {
        let mut bytes = Vec::new();
        while connection.outbox.take(&mut bytes).await {
            for chunk in bytes.chunks(WRITE_SIZE) {
                let result = match sink.write_all(chunk).await {
                    Ok(()) => sink.flush().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = result {
                    return fail(&connection, &error);
                }
                connection.outbox.written(chunk.len());
            }
        }
    });
}

/// Whether there is more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    More,
    End,
}

fn take_in(
    connection: &Connection,
    read: std::io::Result<usize>,
    buffer: &[u8],
    framer: &mut Framer,
) -> (Vec<Frame>, Next) {
    let mut batch = Vec::new();
    let next = match read {
        Ok(0) => {
            framer.end(&mut batch);
            Next::End
        }
        Ok(count) => {
            framer.push(&buffer[..count], &mut batch);
            Next::More
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Next::More,
        Err(error) => {
            if is_departure(&error) {
                tracing::info!("the client has closed its end");
            } else {
                connection.fault(format!("the input cannot be read any more: {error}"));
            }
            Next::End
        }
    };
    (batch, next)
}

fn fail(connection: &Connection, error: &std::io::Error) {
    if is_departure(error) {
        tracing::info!("the client has closed its end");
    } else {
        connection.fault(format!("the output cannot be written any more: {error}"));
    }
    connection.outbox.fail();
}

/// Whether an error says that the other end is gone, which is no fault of this one.
fn is_departure(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

/// The process's stdout as a plain file: the standard library's own handle has a buffer that others may have used.
pub(super) fn plain_stdout() -> std::io::Result<File> {
    std::io::stdout().as_fd().try_clone_to_owned().map(File::from)
}
