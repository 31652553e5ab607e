//! Compresses answers with gzip if the client accepts it and it makes them shorter.
//!
//! An answer is compressed piece by piece, so that it is never in memory twice. [`crate::traffic`]
//! decides how much memory there is. Knows neither connections nor requests, only the header that
//! says what the client accepts.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;

use crate::message::NoMemory;
use crate::text::{Text, TextWriter};
use crate::traffic::ClientMemory;

/// Shorter answers fit into one packet without compression.
const LEN_MIN: usize = 1400;
/// Shorter answers are compressed on the network thread. Longer ones get a blocking thread.
const INLINE_LEN_MAX: usize = 16 * 1024;
/// Most long answers that are compressed at the same time. Others wait. Each one uses a blocking
/// thread meanwhile.
const LONG_MAX: usize = 4;

/// Whether an `Accept-Encoding` header allows gzip.
pub(super) fn is_accepted(header: &str) -> bool {
    header.split(',').any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}

/// Compresses the answers of one server.
pub(super) struct Gzip {
    /// A permit for each long answer that may be compressed at the same time.
    permits: Arc<Semaphore>,
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(LONG_MAX)),
        }
    }

    /// Returns `answer`, compressed if that is worth it, and whether it is compressed.
    ///
    /// # Errors
    /// [`NoMemory`] if too little memory is left for the compressed text.
    pub(super) async fn compress(
        &self,
        answer: Text,
        memory: &ClientMemory,
    ) -> Result<(Text, bool), NoMemory> {
        match answer.len() {
            ..LEN_MIN => Ok((answer, false)),
            LEN_MIN..INLINE_LEN_MAX => {
                let zipped = compressed(answer.pieces(), memory)?;
                // Only a short text is compared, because the plain form of a long one is gone.
                Ok(match zipped.len() < answer.len() {
                    true => (zipped, true),
                    false => (answer, false),
                })
            }
            INLINE_LEN_MAX.. => {
                let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                    return Ok((answer, false));
                };
                let memory = memory.clone();
                // The permit is held until the work is done, even if the client has gone.
                let task = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    compressed(answer.into_pieces(), &memory)
                });
                // The task fails only if the runtime ends, and then nobody reads the answer.
                let zipped = task.await.unwrap_or(Err(NoMemory))?;
                Ok((zipped, true))
            }
        }
    }
}

/// Compresses a text. Each piece is dropped as soon as it is compressed.
fn compressed<P: AsRef<[u8]>>(
    pieces: impl IntoIterator<Item = P>,
    memory: &ClientMemory,
) -> Result<Text, NoMemory> {
    let zipped = TextWriter::new(Some(memory.clone()), usize::MAX);
    let mut encoder = GzEncoder::new(zipped, Compression::fast());
    for piece in pieces {
        encoder.write_all(piece.as_ref()).map_err(|_| NoMemory)?;
    }
    let zipped = encoder.finish().map_err(|_| NoMemory)?;
    Ok(zipped.finish())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use inbound::ClientId;

    use super::*;
    use crate::text::PIECE_LEN;
    use crate::traffic::{MemoryReservation, TrafficMemory};

    fn room(len: usize) -> (TrafficMemory, ClientMemory) {
        let traffic = TrafficMemory::new(len, 100);
        let memory = traffic.client(ClientId::Local(0));
        (traffic, memory)
    }

    /// An answer of `len` digits, with its memory.
    fn answer(len: usize, memory: &ClientMemory) -> (Text, Vec<u8>) {
        let plain: Vec<_> = (0..len).map(|index| b'0' + (index % 10) as u8).collect();
        let mut writer = TextWriter::new(Some(memory.clone()), usize::MAX);
        writer.push(&plain).expect("memory");
        (writer.finish(), plain)
    }

    #[test]
    fn headers() {
        for header in ["gzip", "deflate, gzip;q=0.5", "GZIP", "br;q=1.0, gzip ; q=1"] {
            assert!(is_accepted(header), "{header}");
        }
        for header in [
            "",
            "br",
            "gzip;q=0",
            "identity, gzip;q=0.0",
            "gzipped",
            "gzip;q=x",
        ] {
            assert!(!is_accepted(header), "{header}");
        }
    }

    #[tokio::test]
    async fn compressed_answers_can_be_read_back() {
        let gzip = Gzip::new();
        let (_, memory) = room(4_000_000);
        for len in [0, LEN_MIN - 1, LEN_MIN, INLINE_LEN_MAX, 1_000_000] {
            let (text, plain) = answer(len, &memory);
            let (body, zipped) = gzip.compress(text, &memory).await.expect("memory");
            assert_eq!(zipped, len >= LEN_MIN, "{len}");
            let body = body.to_vec();
            if zipped {
                assert!(body.len() < len / 2, "{len} became {}", body.len());
                let mut back = Vec::new();
                flate2::read::GzDecoder::new(body.as_slice())
                    .read_to_end(&mut back)
                    .expect("gzip");
                assert_eq!(back, plain);
            } else {
                assert_eq!(body, plain);
            }
        }
    }

    #[tokio::test]
    async fn answers_that_get_no_shorter_stay_plain() {
        let mut noise = vec![0; LEN_MIN];
        getrandom::fill(&mut noise).expect("random bytes");
        let (_, memory) = room(1_000_000);
        let result = Gzip::new().compress(Text::from(noise.clone()), &memory).await;
        let (body, zipped) = result.expect("memory");
        assert_eq!((body.to_vec(), zipped), (noise, false));
    }

    #[tokio::test]
    async fn compressing_needs_little_more_memory_than_the_answer() {
        const LEN: usize = 1_000_000;
        let (traffic, memory) = room(LEN + 5 * PIECE_LEN);
        let (text, _) = answer(LEN, &memory);
        let gzip = Gzip::new();
        let (zipped, _) = gzip.compress(text, &memory).await.expect("memory");
        assert!(zipped.len() < LEN / 20, "{} bytes", zipped.len());
        assert!(
            traffic.used() < LEN / 10,
            "{} bytes are still reserved",
            traffic.used()
        );

        let (text, _) = answer(LEN, &memory);
        let mut taken = MemoryReservation::default();
        while memory.reserve(&mut taken, 1000) {}
        let zipped = gzip.compress(text, &memory).await;
        assert!(zipped.is_ok(), "the memory of the plain text is enough");
        assert_eq!(gzip.permits.available_permits(), LONG_MAX);
    }

    #[tokio::test]
    async fn long_answers_wait_and_keep_their_memory() {
        const LEN: usize = 64 * 1024;
        let (traffic, memory) = room(10 * LEN);
        let gzip = Gzip::new();
        let all_permits = gzip
            .permits
            .acquire_many(LONG_MAX as u32)
            .await
            .expect("all permits");
        let mut compressing = Box::pin(gzip.compress(answer(LEN, &memory).0, &memory));
        let waiting = tokio::time::timeout(Duration::from_millis(100), &mut compressing).await;
        assert!(waiting.is_err(), "all permits are taken");
        assert!(traffic.used() >= LEN, "a waiting answer keeps its memory");
        drop(all_permits);
        let (body, zipped) = compressing.await.expect("memory");
        assert!(zipped && body.len() < 2048);
        assert!(traffic.used() < 8192, "only the compressed answer keeps memory");
        assert_eq!(gzip.permits.available_permits(), LONG_MAX);
    }
}
