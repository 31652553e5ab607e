//! t
use std::time::Instant;
fn main() {
    for n in [32usize, 100, 135, 272, 532] {
        let d = vec![7u8; n];
        let t = Instant::now();
        for _ in 0..200000 {
            std::hint::black_box(primitives::keccak256(std::hint::black_box(&d)));
        }
        let a = t.elapsed();
        let t = Instant::now();
        for _ in 0..200000 {
            std::hint::black_box(ethash::keccak256(std::hint::black_box(&d)));
        }
        let b = t.elapsed();
        let many: Vec<&[u8]> = (0..64).map(|_| &d[..]).collect();
        let t = Instant::now();
        for _ in 0..200000 / 64 {
            std::hint::black_box(ethash::keccak256_many(std::hint::black_box(&many)));
        }
        let c = t.elapsed();
        println!(
            "{n}: alloy {:.0} ns, ours {:.0}, many {:.0}",
            a.as_nanos() as f64 / 2e5,
            b.as_nanos() as f64 / 2e5,
            c.as_nanos() as f64 / 2e5
        );
    }
}
