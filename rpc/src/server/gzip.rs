//! Compresses answers with gzip if the client accepts it and it makes them shorter.
//!
//! An answer is compressed piece by piece, so that it is never in memory twice. [`crate::traffic`]
//! decides how much memory there is. Long answers wait for their turn, the clients in turns. An
//! answer that has waited too long, or whose client has hung up, stays plain. Knows neither
//! connections nor requests, only the header that says what the client accepts.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::time::Instant;

use crate::caller::RpcCaller;
use crate::gate::{Gate, Permit};
use crate::limits::Limits;
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
/// Longest time that a long answer waits to be compressed.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The name of these calls at the gate.
const GATE_NAME: &str = "gzip";

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
    /// The gate at which long answers wait.
    gate: Gate,
    wait_max: Duration,
}

impl Gzip {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            gate: Gate::new(LONG_MAX, limits.waiting_calls_max, limits.client_share_percent),
            wait_max: WAIT_MAX,
        }
    }

    /// Returns `answer` to `caller`, compressed if that is worth it, and whether it is compressed.
    ///
    /// # Errors
    /// [`NoMemory`] if too little memory is left for the compressed text.
    pub(super) async fn compress(&self, answer: Text, caller: &RpcCaller) -> Result<(Text, bool), NoMemory> {
        match answer.len() {
            ..LEN_MIN => Ok((answer, false)),
            LEN_MIN..INLINE_LEN_MAX => {
                let zipped = compressed(answer.pieces(), &caller.memory)?;
                // Only a short text is compared, because the plain form of a long one is gone.
                Ok(match zipped.len() < answer.len() {
                    true => (zipped, true),
                    false => (answer, false),
                })
            }
            INLINE_LEN_MAX.. => {
                let Some(permit) = self.permit(caller).await else {
                    return Ok((answer, false));
                };
                let memory = caller.memory.clone();
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

    /// The permit to compress a long answer to `caller`. `None` if none is free in time, or if the
    /// client has hung up.
    async fn permit(&self, caller: &RpcCaller) -> Option<Permit> {
        let deadline = Instant::now() + self.wait_max;
        tokio::select! {
            biased;
            () = caller.hung_up() => None,
            permit = self.gate.acquire(caller, GATE_NAME, deadline) => permit.ok(),
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
    use std::sync::Arc;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use tokio::sync::Notify;

    use super::*;
    use crate::caller::{HangUp, remote_client};
    use crate::text::PIECE_LEN;
    use crate::traffic::{MemoryReservation, TrafficMemory};

    /// A client that hangs up when it is told to.
    struct Line(Arc<Notify>);

    impl HangUp for Line {
        fn wait(&self) -> BoxFuture<'_, ()> {
            self.0.notified().boxed()
        }
    }

    fn room(len: usize) -> (TrafficMemory, RpcCaller) {
        let traffic = TrafficMemory::new(len, 100);
        let caller = RpcCaller::local(&traffic);
        (traffic, caller)
    }

    fn gzip() -> Gzip {
        Gzip {
            wait_max: Duration::from_secs(20),
            ..Gzip::new(&Limits::default())
        }
    }

    /// The permits that are free.
    async fn free_permits(gzip: &Gzip, caller: &RpcCaller) -> Vec<Permit> {
        let mut permits = Vec::new();
        while let Ok(permit) = gzip.gate.acquire(caller, GATE_NAME, Instant::now()).await {
            permits.push(permit);
        }
        permits
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
        let gzip = gzip();
        let (_, caller) = room(4_000_000);
        for len in [0, LEN_MIN - 1, LEN_MIN, INLINE_LEN_MAX, 1_000_000] {
            let (text, plain) = answer(len, &caller.memory);
            let (body, zipped) = gzip.compress(text, &caller).await.expect("memory");
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
        let (_, caller) = room(1_000_000);
        let result = gzip().compress(Text::from(noise.clone()), &caller).await;
        let (body, zipped) = result.expect("memory");
        assert_eq!((body.to_vec(), zipped), (noise, false));
    }

    #[tokio::test]
    async fn compressing_needs_little_more_memory_than_the_answer() {
        const LEN: usize = 1_000_000;
        let (traffic, caller) = room(LEN + 5 * PIECE_LEN);
        let (text, _) = answer(LEN, &caller.memory);
        let gzip = gzip();
        let (zipped, _) = gzip.compress(text, &caller).await.expect("memory");
        assert!(zipped.len() < LEN / 20, "{} bytes", zipped.len());
        assert!(
            traffic.used() < LEN / 10,
            "{} bytes are still reserved",
            traffic.used()
        );

        let (text, _) = answer(LEN, &caller.memory);
        let mut taken = MemoryReservation::default();
        while caller.memory.reserve(&mut taken, 1000) {}
        let zipped = gzip.compress(text, &caller).await;
        assert!(zipped.is_ok(), "the memory of the plain text is enough");
        assert_eq!(free_permits(&gzip, &caller).await.len(), LONG_MAX);
    }

    #[tokio::test]
    async fn long_answers_wait_and_keep_their_memory() {
        const LEN: usize = 64 * 1024;
        let (traffic, caller) = room(10 * LEN);
        let gzip = gzip();
        let all_permits = free_permits(&gzip, &caller).await;
        let mut compressing = Box::pin(gzip.compress(answer(LEN, &caller.memory).0, &caller));
        let waiting = tokio::time::timeout(Duration::from_millis(100), &mut compressing).await;
        assert!(waiting.is_err(), "all permits are taken");
        assert!(traffic.used() >= LEN, "a waiting answer keeps its memory");
        drop(all_permits);
        let (body, zipped) = compressing.await.expect("memory");
        assert!(zipped && body.len() < 2048);
        assert!(traffic.used() < 8192, "only the compressed answer keeps memory");
        assert_eq!(free_permits(&gzip, &caller).await.len(), LONG_MAX);
    }
    #[tokio::test]
    async fn an_answer_that_waits_in_vain_stays_plain() {
        const LEN: usize = 64 * 1024;
        let (_, caller) = room(10 * LEN);
        let mut gzip = Gzip::new(&Limits::default());
        let all_permits = free_permits(&gzip, &caller).await;
        gzip.wait_max = Duration::from_millis(10);
        let (text, plain) = answer(LEN, &caller.memory);
        let (body, zipped) = gzip.compress(text, &caller).await.expect("memory");
        assert!(!zipped && body.to_vec() == plain, "no permit was free in time");
        gzip.wait_max = Duration::from_secs(3600);
        let line = Arc::new(Notify::new());
        let caller = caller.with_hang_up(Arc::new(Line(Arc::clone(&line))));
        let mut waiting = Box::pin(gzip.compress(answer(LEN, &caller.memory).0, &caller));
        assert!(waiting.as_mut().now_or_never().is_none());
        line.notify_one();
        assert!(!waiting.await.expect("memory").1, "the client has hung up");
        drop(all_permits);
        line.notify_one();
        let (_, zipped) = gzip
            .compress(answer(LEN, &caller.memory).0, &caller)
            .await
            .expect("memory");
        assert!(!zipped, "the client has hung up before");
        assert_eq!(free_permits(&gzip, &caller).await.len(), LONG_MAX);
    }

    #[tokio::test]
    async fn clients_take_turns() {
        const LEN: usize = 64 * 1024;
        let traffic = TrafficMemory::new(100 * LEN, 100);
        let [crowd, other] = [1, 2].map(|address| RpcCaller::remote(remote_client(address), &traffic));
        let gzip = gzip();
        let mut permits = free_permits(&gzip, &crowd).await;
        let mut waiting: Vec<_> = (0..20)
            .map(|_| Box::pin(gzip.compress(answer(LEN, &crowd.memory).0, &crowd)))
            .collect();
        for answer in &mut waiting {
            assert!(answer.as_mut().now_or_never().is_none());
        }
        let mut late = Box::pin(gzip.compress(answer(LEN, &other.memory).0, &other));
        assert!(late.as_mut().now_or_never().is_none());
        drop(permits.split_off(LONG_MAX - 2));
        let (_, zipped) = late.await.expect("memory");
        assert!(zipped, "the second turn is the other client's");
    }
}
