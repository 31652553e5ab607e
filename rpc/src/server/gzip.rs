//! Compresses answers with gzip if the client accepts it and it makes them shorter.
//!
//! Memory for an answer is reserved before it is compressed. [`crate::traffic`] decides how much
//! there is.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;

use crate::traffic::ReservedText;

/// Shorter answers fit into one packet without compression.
const LEN_MIN: usize = 1400;
/// Shorter answers are compressed on the network thread. Longer ones get a blocking thread.
const INLINE_LEN_MAX: usize = 16 * 1024;
/// Most long answers that are compressed at the same time. Others wait. Each one is in memory twice
/// meanwhile and uses a blocking thread that calls may be waiting for.
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
    pub(super) async fn compress(&self, answer: ReservedText) -> (ReservedText, bool) {
        match answer.as_ref().len() {
            ..LEN_MIN => (answer, false),
            LEN_MIN..INLINE_LEN_MAX => compressed(answer),
            INLINE_LEN_MAX.. => {
                let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                    return (answer, false);
                };
                // The permit is held until the work is done, even if the client has gone.
                let task = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    compressed(answer)
                });
                // The task fails only if the runtime ends, and then nobody reads the answer.
                task.await.unwrap_or_default()
            }
        }
    }
}

fn compressed(answer: ReservedText) -> (ReservedText, bool) {
    let plain = answer.as_ref();
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    match encoder.write_all(plain).and_then(|()| encoder.finish()) {
        Ok(zipped) if zipped.len() < plain.len() => (answer.replace(zipped), true),
        // Writing to memory does not fail. If it did, the plain answer would do as well.
        _ => (answer, false),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;
    use crate::traffic::TrafficMemory;

    /// An answer of `len` digits.
    fn answer(len: usize) -> Vec<u8> {
        (0..len).map(|index| b'0' + (index % 10) as u8).collect()
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
        let (gzip, traffic) = (Gzip::new(), TrafficMemory::new(1_000_000));
        for len in [0, LEN_MIN - 1, LEN_MIN, INLINE_LEN_MAX, 1_000_000] {
            let answer = answer(len);
            let text = traffic.reserve_text(answer.clone()).expect("memory");
            let (body, zipped) = gzip.compress(text).await;
            assert_eq!(zipped, len >= LEN_MIN, "{len}");
            let body = body.as_ref();
            if zipped {
                assert!(body.len() < len / 2, "{len} became {}", body.len());
                let mut back = Vec::new();
                flate2::read::GzDecoder::new(body)
                    .read_to_end(&mut back)
                    .expect("gzip");
                assert_eq!(back, answer);
            } else {
                assert_eq!(body, answer);
            }
        }
    }

    #[tokio::test]
    async fn answers_that_get_no_shorter_stay_plain() {
        let mut noise = vec![0; LEN_MIN];
        getrandom::fill(&mut noise).expect("random bytes");
        let text = TrafficMemory::new(LEN_MIN)
            .reserve_text(noise.clone())
            .expect("memory");
        let (body, zipped) = Gzip::new().compress(text).await;
        assert_eq!((body.as_ref(), zipped), (noise.as_slice(), false));
    }

    #[tokio::test]
    async fn long_answers_wait_and_keep_their_memory() {
        const LEN: usize = 64 * 1024;
        let (gzip, traffic) = (Gzip::new(), TrafficMemory::new(LEN));
        let all_permits = gzip
            .permits
            .acquire_many(LONG_MAX as u32)
            .await
            .expect("all permits");
        let mut compressing = Box::pin(gzip.compress(traffic.reserve_text(answer(LEN)).expect("memory")));
        let waiting = tokio::time::timeout(Duration::from_millis(100), &mut compressing).await;
        assert!(waiting.is_err(), "all permits are taken");
        assert!(
            traffic.reserve_text(answer(1024)).is_none(),
            "a waiting answer keeps its memory"
        );
        drop(all_permits);
        let (body, zipped) = compressing.await;
        assert!(zipped && body.as_ref().len() < 2048);
        assert!(
            traffic.reserve_text(answer(LEN - 2048)).is_some(),
            "only the compressed answer keeps memory"
        );
        assert_eq!(gzip.permits.available_permits(), LONG_MAX);
    }
}
