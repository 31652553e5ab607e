//! The dashboard: a page for browsers that shows what a miner or a node does.
//!
//! The page and its scripts are part of the program, and they load nothing from elsewhere. The page
//! asks `/status` every few seconds and `/history/…` now and then. A [`DashboardSource`] knows the
//! figures. This module keeps the hashrates of the last day in memory. It knows neither chains nor
//! devices.
//!
//! | path | content |
//! |---|---|
//! | `/` | the page; its parts are at `/style.css`, `/app.js` and so on |
//! | `/status` | all figures of this moment, as JSON |
//! | `/history/hour`, `/history/day` | hashrates of each device, as JSON |
//! | others | what [`DashboardSource::other_page`] has |

mod assets;
mod history;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use daemon::status::{self, PageFuture, PageSource, StatusPage, StatusServer};
use daemon::{ClientId, Hosts};
use hyper::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use self::history::{DAY, HOUR, RateHistory};

/// Time between two readings of the hashrates.
const READ_EVERY: Duration = Duration::from_secs(2);
/// The time for which a status is given to others, too. So many browsers cost no more than one.
const STATUS_LIFETIME: Duration = Duration::from_millis(900);
/// The answer to an unknown path.
const PATHS: &str = "paths: / /status /history/hour /history/day\n";

/// The page itself, for a source that shows it at further paths. Its explorer then asks below the
/// path at which it is.
pub fn index_page() -> StatusPage {
    assets::page("/").unwrap_or_else(|| StatusPage::not_found(PATHS))
}

/// Knows the figures of a dashboard.
///
/// The methods are called on threads for blocking work, so they may read files.
pub trait DashboardSource: Send + Sync + 'static {
    /// All figures of this moment: an object as in `/status` of a miner, with `program`, and with
    /// further members that the page knows.
    fn status(&self) -> Value;

    /// The names and rates of all that computes hashes now, in hashes per second. Called every
    /// other second, whether a browser looks or not.
    fn rates(&self) -> Vec<(String, f64)>;

    /// The page at a path that the dashboard itself does not have. `None` if there is none.
    fn other_page<'a>(&'a self, path: &'a str, client: ClientId) -> Option<PageFuture<'a>> {
        let _ = (path, client);
        None
    }
}

/// A running dashboard. Dropping it ends the server and its connections.
#[derive(Debug)]
pub struct DashboardServer {
    server: StatusServer,
    reader: JoinHandle<()>,
}

impl DashboardServer {
    /// The address of the server. The port is the real one, also if port 0 was requested.
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for DashboardServer {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Starts the dashboard of `source` at `address`. Requests must name one of `hosts`.
///
/// # Errors
/// If the server cannot listen at that address.
pub async fn serve(
    address: SocketAddr,
    hosts: Hosts,
    source: Arc<dyn DashboardSource>,
) -> io::Result<DashboardServer> {
    let dashboard = Dashboard(Arc::new(DashboardState {
        source,
        started: Instant::now(),
        status: Mutex::new(None),
        hour: Mutex::new(RateHistory::new(HOUR)),
        day: Mutex::new(RateHistory::new(DAY)),
    }));
    let state = Arc::clone(&dashboard.0);
    let server = status::serve_pages(address, hosts, Arc::new(dashboard)).await?;
    let reader = tokio::spawn(read_rates(state));
    Ok(DashboardServer { server, reader })
}

/// The pages of the dashboard.
struct Dashboard(Arc<DashboardState>);

struct DashboardState {
    source: Arc<dyn DashboardSource>,
    started: Instant,
    /// The last status, and when it was collected.
    status: Mutex<Option<(Instant, StatusPage)>>,
    hour: Mutex<RateHistory>,
    day: Mutex<RateHistory>,
}

/// Reads the hashrates into the history, until the task is aborted.
async fn read_rates(state: Arc<DashboardState>) {
    let mut ticks = interval(READ_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let state = Arc::clone(&state);
        // An error means that the source panicked, which is in the log.
        let _ = spawn_blocking(move || state.read()).await;
    }
}

impl DashboardState {
    fn read(&self) {
        let rates = self.source.rates();
        let elapsed = self.started.elapsed();
        self.hour.lock().add(elapsed, &rates);
        self.day.lock().add(elapsed, &rates);
    }

    /// The page `/status`. Those who ask at the same time wait for one another and get the same.
    fn status(&self) -> StatusPage {
        let mut last = self.status.lock();
        if let Some((at, page)) = &*last
            && at.elapsed() < STATUS_LIFETIME
        {
            return page.clone();
        }
        let mut status = self.source.status();
        status["time_s"] = unix_secs().into();
        let page = StatusPage::json(&status);
        *last = Some((Instant::now(), page.clone()));
        page
    }

    fn history(&self, history: &Mutex<RateHistory>) -> StatusPage {
        StatusPage::json(&history.lock().json(self.started.elapsed(), unix_secs()))
    }
}

impl PageSource for Dashboard {
    fn page<'a>(&'a self, path: &'a str, client: ClientId) -> PageFuture<'a> {
        if let Some(page) = assets::page(path) {
            return Box::pin(std::future::ready(page));
        }
        match path {
            "/status" => {
                let state = Arc::clone(&self.0);
                Box::pin(async move {
                    let status = spawn_blocking(move || state.status()).await;
                    status.unwrap_or_else(|_| {
                        let text = "the status cannot be collected; the log has the reason\n";
                        StatusPage::text(StatusCode::INTERNAL_SERVER_ERROR, text)
                    })
                })
            }
            "/history/hour" => Box::pin(std::future::ready(self.0.history(&self.0.hour))),
            "/history/day" => Box::pin(std::future::ready(self.0.history(&self.0.day))),
            _ => match self.0.source.other_page(path, client) {
                Some(page) => page,
                None => Box::pin(std::future::ready(StatusPage::not_found(PATHS))),
            },
        }
    }
}

/// Seconds since 1970-01-01, UTC.
fn unix_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    /// Counts how often its status is collected.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl DashboardSource for Counting {
        fn status(&self) -> Value {
            json!({"asked": self.0.fetch_add(1, Ordering::Relaxed)})
        }

        fn rates(&self) -> Vec<(String, f64)> {
            vec![("cpu".to_owned(), 5.0)]
        }

        fn other_page<'a>(&'a self, path: &'a str, _: ClientId) -> Option<PageFuture<'a>> {
            let page = StatusPage::json(&json!(path));
            (path == "/more").then(|| Box::pin(std::future::ready(page)) as PageFuture<'a>)
        }
    }

    fn dashboard() -> Dashboard {
        Dashboard(Arc::new(DashboardState {
            source: Arc::new(Counting::default()),
            started: Instant::now(),
            status: Mutex::new(None),
            hour: Mutex::new(RateHistory::new(HOUR)),
            day: Mutex::new(RateHistory::new(DAY)),
        }))
    }

    #[tokio::test]
    async fn paths_have_pages() {
        let dashboard = dashboard();
        dashboard.0.read();
        let client = std::net::IpAddr::from([192, 0, 2, 1]).into();
        for (path, code, word) in [
            ("/", 200, "<!doctype html>"),
            ("/app.js", 200, "import"),
            ("/style.css", 200, "prefers-color-scheme"),
            ("/status", 200, "\"asked\":0"),
            // The second request comes within the lifetime of the first answer.
            ("/status", 200, "\"asked\":0"),
            ("/history/hour", 200, "\"name\":\"cpu\""),
            ("/history/day", 200, "\"step_s\":120"),
            ("/history/year", 404, "/history/day"),
            ("/more", 200, "/more"),
            ("/nothing", 404, "/status"),
        ] {
            let page = dashboard.page(path, client).await;
            let body = String::from_utf8_lossy(page.body()).into_owned();
            assert_eq!(page.code().as_u16(), code, "{path}: {body}");
            assert!(body.contains(word), "{path}: {body}");
        }
    }
}
