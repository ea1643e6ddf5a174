//! Connections of clients that call the server by no proper name.
//!
//! `endpoint status` and the like of etcdctl 3.4 write `http://127.0.0.1:2379` into `:authority`,
//! and etcd's Go client 3.5.0 writes `#initially=[http://127.0.0.1:2379]`. Neither is an authority
//! (RFC 3986 §3.2), and the HTTP/2 library here takes such a request for malformed; a server in Go
//! never looks. So the name is replaced before it is read, by one that says nothing to anybody.
//!
//! ```text
//!   preface ──▶ frames ──▶ the first HEADERS: a proper name? ──yes──▶ Through, for ever
//!                                                            ──no───▶ each HEADERS is looked at
//! ```
//! It never changes anything else, and holds no more than one frame of headers. The connection of
//! a client that does better is looked at once.

mod hpack;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// What a client's side of an HTTP/2 connection begins with (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame (RFC 9113 §4.1): 3 bytes of length, type, flags, 4 bytes of stream.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
/// The largest frame that a client may send unless it is told otherwise.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// How much is read at a time, until nothing has to be looked at any more.
const READ_BYTES: usize = 4 << 10;

/// A connection whose requests name a proper authority.
pub(super) struct Named<C> {
    inner: C,
    names: Names,
    /// Bytes to hand out.
    ready: BytesMut,
}

impl<C> Named<C> {
    pub(super) fn new(inner: C) -> Self {
        Self { inner, names: Names::default(), ready: BytesMut::new() }
    }
}

impl<C: Connected> Connected for Named<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.inner.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Named<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            if this.names.stage == Stage::Through {
                return Pin::new(&mut this.inner).poll_read(context, buffer);
            }
            let mut space = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                this.names.stage = Stage::Through;
                this.ready = std::mem::take(&mut this.names.held);
            } else {
                this.names.take(read.filled(), &mut this.ready);
            }
        }
        let len = buffer.remaining().min(this.ready.len());
        buffer.put_slice(&this.ready[..len]);
        this.ready.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Named<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing has come yet.
    #[default]
    Preface,
    /// No request has come yet.
    First,
    /// The name is no proper one, and will come again.
    Replacing,
    /// There is nothing to do any more.
    Through,
}

/// What the client sends, on its way in.
#[derive(Default)]
struct Names {
    stage: Stage,
    /// So many bytes belong to a frame that is of no interest.
    passing: usize,
    /// What is not complete yet: less than a preface, or than a frame of headers.
    held: BytesMut,
}

impl Names {
    /// Takes bytes in, and hands out what is settled.
    fn take(&mut self, bytes: &[u8], out: &mut BytesMut) {
        self.held.extend_from_slice(bytes);
        while let Some(len) = self.step(out) {
            out.extend_from_slice(&self.held.split_to(len));
        }
    }

    /// How many of the bytes held can go on as they are; `None` when more must come first. A
    /// frame that is changed goes out from here.
    fn step(&mut self, out: &mut BytesMut) -> Option<usize> {
        if self.held.is_empty() {
            return None;
        }
        match self.stage {
            Stage::Through => return Some(self.held.len()),
            Stage::Preface if self.held.starts_with(PREFACE) => {
                self.stage = Stage::First;
                return Some(PREFACE.len());
            }
            Stage::Preface if PREFACE.starts_with(&self.held) => return None,
            Stage::Preface => return self.give_up(),
            Stage::First | Stage::Replacing => {}
        }
        if self.passing > 0 {
            let len = self.passing.min(self.held.len());
            self.passing -= len;
            return Some(len);
        }
        let head = self.held.first_chunk::<HEAD>()?;
        let len = HEAD
            + usize::from(head[0]) * 0x1_0000
            + usize::from(head[1]) * 0x100
            + usize::from(head[2]);
        if head[3] != HEADERS {
            self.passing = len;
            return self.step(out);
        }
        if len > HEAD + FRAME_BYTES_MAX {
            return self.give_up();
        }
        if self.held.len() < len {
            return None;
        }
        match proper(&self.held[..len]) {
            Some(frame) => {
                self.stage = Stage::Replacing;
                self.held.advance(len);
                out.extend_from_slice(&frame);
                Some(0)
            }
            None if self.stage == Stage::First => self.give_up(),
            None => Some(len),
        }
    }

    fn give_up(&mut self) -> Option<usize> {
        self.stage = Stage::Through;
        Some(self.held.len())
    }
}

/// A frame of headers with a proper name in the place of another; `None` when it can stay.
fn proper(frame: &[u8]) -> Option<Vec<u8>> {
    let flags = frame[4];
    let padding = if flags & PADDED == 0 { 0 } else { 1 + usize::from(*frame.get(HEAD)?) };
    let start = HEAD + usize::from(flags & PADDED != 0) + if flags & PRIORITY == 0 { 0 } else { 5 };
    let end = (frame.len() + usize::from(flags & PADDED != 0)).checked_sub(padding)?;
    let literal = hpack::authority(frame.get(start..end)?)?;
    let text = literal.text()?;
    if text.is_empty() || http::uri::Authority::try_from(&text[..]).is_ok() {
        return None;
    }
    // As long as before: the tables of both ends, which know such values by number and forget
    // them by size (RFC 7541 §4), stay alike.
    let name: Vec<u8> = text.into_iter().map(harmless).collect();
    let (value, mut proper) = (literal.place, frame[..start].to_vec());
    proper.extend_from_slice(&frame[start..start + value.start]);
    hpack::write(&name, &mut proper);
    proper.extend_from_slice(&frame[start + value.end..]);
    let len = u32::try_from(proper.len() - HEAD).ok()?.to_be_bytes();
    proper[..3].copy_from_slice(&len[1..]);
    Some(proper)
}

/// What is no part of a host's name becomes a dash.
fn harmless(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() || byte == b'.' { byte } else { b'-' }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `:method POST`, `:scheme http`, `:path`, and then `:authority`, as etcdctl writes them.
    const BEFORE: &[u8] = b"\x83\x86\x45\x97\x60\xa9\x24\x88\x2d\x9d\xcb\x65\x71\xaf\xa0\x66\xa9\
        \x25\xa8\x75\x10\xac\x6e\x48\xd3\x6a\x3f";
    /// `http://127.0.0.1:31999`, and `127.0.0.1:31999`.
    const IMPROPER: &[u8] = b"\x41\x90\x9d\x29\xae\xe3\x0c\x04\x4e\xae\x05\xc0\xb8\x6e\x32\x17\
        \xdf\x7f";
    const PROPER: &[u8] = b"\x41\x8b\x08\x9d\x5c\x0b\x81\x70\xdc\x64\x2f\xbe\xff";
    const REPLACED: &[u8] = b"\x41\x16http---127.0.0.1-31999";
    /// `content-type` by number, and the like.
    const BEHIND: &[u8] = b"\xbf\x82\xc0";

    fn frame(kind: u8, flags: u8, parts: &[&[u8]]) -> Vec<u8> {
        let payload = parts.concat();
        let len = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&len[1..], &[kind, flags, 0, 0, 0, 1], &payload].concat()
    }

    /// What comes out when the bytes come in pieces of this length, and where that leads.
    fn through(bytes: &[u8], piece: usize) -> (Vec<u8>, Stage) {
        let (mut names, mut out) = (Names::default(), BytesMut::new());
        bytes.chunks(piece).for_each(|piece| names.take(piece, &mut out));
        assert!(names.held.is_empty(), "nothing is kept: {:?}", names.held);
        (out.to_vec(), names.stage)
    }

    #[test]
    fn a_proper_name_is_left_alone_and_so_is_all_behind_it() {
        let request = frame(HEADERS, 4, &[BEFORE, PROPER, BEHIND]);
        let improper = frame(HEADERS, 4, &[BEFORE, IMPROPER, BEHIND]);
        let bytes = [PREFACE, &frame(4, 0, &[]), &request, &improper].concat();
        for piece in [1, 7, bytes.len()] {
            assert_eq!(through(&bytes, piece), (bytes.clone(), Stage::Through));
        }
    }

    #[test]
    fn another_name_is_replaced_whenever_it_comes() {
        let data = frame(0, 1, &[&[HEADERS; 5000]]);
        let by_number = frame(HEADERS, 4, &[b"\x83\x86\xbe", BEHIND]);
        let frames = |name: &[u8]| {
            let first = frame(HEADERS, 4, &[BEFORE, name, BEHIND]);
            let padded = frame(HEADERS, 12, &[b"\x02", BEFORE, name, BEHIND, b"\0\0"]);
            let priority = frame(HEADERS, 36, &[b"\0\0\0\0\x10", BEFORE, name]);
            [PREFACE, &first, &data, &by_number, &padded, &data, &priority].concat()
        };
        let (bytes, expected) = (frames(IMPROPER), frames(REPLACED));
        for piece in [1, 13, 4096, bytes.len()] {
            assert_eq!(through(&bytes, piece), (expected.clone(), Stage::Replacing));
        }
    }

    #[test]
    fn what_is_no_http_2_and_what_is_broken_passes() {
        for bytes in [
            &b"GET /version HTTP/1.1\r\n\r\n"[..],
            &[PREFACE, &frame(HEADERS, 12, &[b"\xff", BEFORE])].concat(),
            &[PREFACE, &frame(HEADERS, 4, &[BEFORE, &IMPROPER[..9]])].concat(),
            &[PREFACE, &frame(HEADERS, 4, &[])].concat(),
            &[PREFACE, &frame(HEADERS, 36, &[b"\0"])].concat(),
            &[PREFACE, &frame(HEADERS, 4, &[&[0x7f; 40]])].concat(),
            &[PREFACE, &frame(HEADERS, 4, &[&[0xff; 20_000]])].concat(),
        ] {
            assert_eq!(through(bytes, 3), (bytes.to_vec(), Stage::Through));
        }
    }
}
