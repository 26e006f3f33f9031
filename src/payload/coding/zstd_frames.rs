//! The frames of a zstd body (RFC 8878): what they state, and what they hold.

use std::io::{self, BufRead, Read};

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

use super::error::CodingError;
use crate::payload::limits;

/// Frames that are decoded one after the other. `prefix` is raw content that each may refer to.
pub(super) struct Frames<'a, R> {
    context: DCtx<'a>,
    from: R,
    prefix: Option<&'a [u8]>,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    NoFrameYet,
    WithinFrame,
    BetweenFrames,
}

impl<'a, R: BufRead> Frames<'a, R> {
    pub(super) fn new(from: R, prefix: Option<&'a [u8]>) -> Result<Self, CodingError> {
        let mut context = DCtx::try_create().ok_or(CodingError::NoMemory)?;
        let window = DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG);
        context.set_parameter(window).map_err(|_| CodingError::NoMemory)?;
        Ok(Self { context, from, prefix, progress: Progress::NoFrameYet })
    }
}

impl<R: BufRead> Read for Frames<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let input = self.from.fill_buf()?;
            let at_end = input.is_empty();
            if at_end && self.progress == Progress::BetweenFrames {
                return Ok(0);
            }
            // zstd forgets a prefix with the frame that it was used for.
            if let Some(prefix) = self.prefix.filter(|_| self.progress != Progress::WithinFrame) {
                self.context.ref_prefix(prefix).map_err(damaged)?;
            }
            let (mut source, mut target) = (InBuffer::around(input), OutBuffer::around(&mut *buffer));
            let left = self.context.decompress_stream(&mut target, &mut source).map_err(damaged)?;
            let (read, written) = (source.pos(), target.pos());
            self.from.consume(read);
            self.progress = if left == 0 { Progress::BetweenFrames } else { Progress::WithinFrame };
            if written > 0 {
                return Ok(written);
            }
            if at_end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn damaged(_: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(CodingError::Damaged)
}

/// Bytes that the frames of a whole body state together; those that state nothing count as 0. A
/// size that no decoder could yield is an error, and so is a window beyond the limit.
pub(super) fn stated(mut body: &[u8]) -> Result<u64, CodingError> {
    let mut stated = 0_u64;
    while !body.is_empty() {
        let length = zstd_safe::find_frame_compressed_size(body).map_err(|_| CodingError::Damaged)?;
        let (frame, rest) = body.split_at_checked(length).ok_or(CodingError::Damaged)?;
        let content = zstd_safe::get_frame_content_size(frame).map_err(|_| CodingError::Damaged)?.unwrap_or(0);
        let blocks = frame.len() as u64 / limits::ZSTD_BLOCK_HEADER_BYTES;
        if content > blocks * limits::ZSTD_BLOCK_BYTES {
            return Err(CodingError::Damaged);
        }
        // The decoder looks at the window only where it needs one of its own.
        if window(frame) > 1 << limits::ZSTD_WINDOW_LOG {
            return Err(CodingError::Window);
        }
        stated = stated.saturating_add(content);
        body = rest;
    }
    Ok(stated)
}

/// The window that a frame states (RFC 8878, 3.1.1.1.2). A frame of a single segment states none:
/// its window is its content.
fn window(frame: &[u8]) -> u64 {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    const SINGLE_SEGMENT: u8 = 1 << 5;
    match frame.strip_prefix(&MAGIC) {
        Some([descriptor, window, ..]) if descriptor & SINGLE_SEGMENT == 0 => {
            let base = 1_u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        }
        _ => 0,
    }
}

/// `body` as one frame that states its size. A window is never larger than 8 MiB.
pub(super) fn frame(body: &[u8], level: i32, prefix: Option<&[u8]>) -> Result<Vec<u8>, CodingError> {
    let mut context = CCtx::try_create().ok_or(CodingError::NoMemory)?;
    let level = CParameter::CompressionLevel(level.min(limits::ZSTD_LEVEL));
    context.set_parameter(level).map_err(|_| CodingError::NoMemory)?;
    if let Some(prefix) = prefix {
        context.ref_prefix(prefix).map_err(|_| CodingError::NoMemory)?;
    }
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
    context.compress2(&mut frame, body).map_err(|_| CodingError::NoMemory)?;
    frame.shrink_to_fit();
    Ok(frame)
}
