//! Sends spans of requests and blocks to an OpenTelemetry collector, if `--otlp` names one.
//!
//! A span says what was done, when it began and how long it took; its parent is what it was a part
//! of. Spans are collected in memory and sent by a thread. If the collector is away or slow, spans
//! are lost and the log says so; the node does not wait for it.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tokio::runtime::Runtime;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// The longest time for the last spans when the program ends.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// An error of the export of spans.
#[derive(Debug, thiserror::Error)]
#[error("--otlp {endpoint}: {reason}")]
pub struct SpanExportError {
    /// The address of the collector.
    pub endpoint: String,
    /// The fault.
    pub reason: String,
}

/// The exporter of spans while the program runs.
struct SpanExport {
    provider: SdkTracerProvider,
    /// The connection to the collector runs here.
    _runtime: Runtime,
}

static EXPORT: OnceLock<SpanExport> = OnceLock::new();

/// The part of the log that sends the spans of `crates` to the collector at `endpoint`.
///
/// # Errors
/// [`SpanExportError`] if the address is malformed or the system gives no thread.
pub(crate) fn layer<S>(
    endpoint: &str,
    crates: &'static [&'static str],
) -> Result<impl Layer<S> + Send + Sync + use<S>, SpanExportError>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let failed = |reason: String| SpanExportError {
        endpoint: endpoint.to_owned(),
        reason,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("spans")
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let exporter = {
        let _guard = runtime.enter();
        SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| failed(error.to_string()))?
    };
    let resource = Resource::builder_empty()
        .with_service_name(service_name())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let tracer: Tracer = provider.tracer("vnode");
    let _ = EXPORT.set(SpanExport {
        provider,
        _runtime: runtime,
    });
    let is_own = move |target: &str| {
        let own = target.split("::").next().unwrap_or(target);
        crates.contains(&own)
    };
    let spans = filter_fn(move |metadata| metadata.is_span() && is_own(metadata.target()));
    Ok(OpenTelemetryLayer::new(tracer).with_filter(spans))
}

/// The name of this program: `vnode` or `scs`. A command that `vnode-tools` runs is one of `vnode`.
fn service_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem());
    let name = name.map_or_else(|| "vnode".into(), |name| name.to_string_lossy());
    name.trim_end_matches("-tools").to_owned()
}

/// Sends the last spans. To be called when the program ends.
pub fn finish() {
    if let Some(export) = EXPORT.get()
        && let Err(error) = export.provider.shutdown_with_timeout(FINISH_TIME)
    {
        tracing::warn!(%error, "the last spans were not sent");
    }
}
