//! The upper bound: a warp handler that reads a body and returns constant bytes.
//!
//! A server on the same library could not be faster, even if answers cost nothing.

use std::io::{Read, Write};

use bench::Failure;
use warp::Filter;
use warp::hyper::body::Bytes;

/// Serves the bytes of standard input on a free port, and prints its address.
pub(crate) fn serve() -> Result<(), Failure> {
    let mut answer = Vec::new();
    std::io::stdin()
        .read_to_end(&mut answer)
        .map_err(|error| format!("standard input: {error}"))?;
    let answer = Bytes::from(answer);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("runtime: {error}"))?;
    runtime.block_on(async {
        let handler = warp::post().and(warp::body::bytes()).map(move |_request: Bytes| {
            warp::http::Response::builder()
                .header("content-type", "application/json")
                .body(answer.clone())
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| format!("cannot listen: {error}"))?;
        let address = listener.local_addr()?;
        println!("{address}");
        std::io::stdout().flush()?;
        warp::serve(handler).incoming(listener).run().await;
        Ok(())
    })
}
