//! Reading and writing files that somebody may have put into non-blocking mode.
//!
//! The mode belongs to the open file, which a process shares with whoever started it: an event loop on the other end of
//! a pipe or on the same terminal turns it on for all. Answers for waiting where a plain read or write would give up.
//! Leaves out what the bytes mean.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

/// Reads what there is, and waits until there is something.
pub(crate) fn read(source: &mut (impl Read + AsFd), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(source, PollFlags::IN)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Writes everything, and says after each piece how long it was.
pub(crate) fn write(
    sink: &mut (impl Write + AsFd),
    mut bytes: &[u8],
    mut written: impl FnMut(usize),
) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                written(count);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(sink, PollFlags::OUT)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the next try has something to tell: bytes, room, an end or an error.
fn wait(file: &impl AsFd, wanted: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(file, wanted)], None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    fn pipe() -> (File, File) {
        let (reader, writer) = io::pipe().unwrap();
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        (reader.into(), writer.into())
    }

    #[test]
    fn a_reader_waits_for_the_bytes_and_sees_the_end() {
        let (mut reader, mut writer) = pipe();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let reading = thread::spawn(move || {
            let mut buffer = [0; 8];
            let count = read(&mut reader, &mut buffer).unwrap();
            (buffer[..count].to_vec(), read(&mut reader, &mut buffer).unwrap())
        });
        writer.write_all(b"late").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap(), (b"late".to_vec(), 0));
    }

    #[test]
    fn a_writer_waits_for_room_and_sees_that_the_reader_is_gone() {
        let (mut reader, mut writer) = pipe();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let copy = bytes.clone();
        let writing = thread::spawn(move || {
            let mut count = 0;
            write(&mut writer, &copy, |piece| count += piece).unwrap();
            count
        });
        let mut seen = vec![0; bytes.len()];
        let mut from = 0;
        while from < seen.len() {
            from += read(&mut reader, &mut seen[from..]).unwrap();
        }
        assert_eq!((writing.join().unwrap(), seen), (bytes.len(), bytes));

        let (reader, mut writer) = pipe();
        drop(reader);
        let error = write(&mut writer, b"x", |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
