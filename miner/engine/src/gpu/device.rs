//! An open device: allocation, submission and waiting. Every failure becomes a [`GpuError`].
//!
//! Knows buffers and pipelines, and nothing of Ethash. The library wgpu panics in two cases, which
//! this module handles: on errors that no scope catches, and in `Device::poll` when a driver loses
//! its device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::adapter::AdapterInfo;
use super::error::GpuError;

/// The usages of a buffer that holds rows of a table.
pub(crate) const TABLE_USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_DST)
    .union(wgpu::BufferUsages::COPY_SRC);

/// Errors that the callbacks of the device have reported.
#[derive(Default)]
struct DeviceReports {
    lost: Mutex<Option<String>>,
    uncaptured: Mutex<Option<String>>,
    hung: AtomicBool,
}

/// An open device and its queue.
pub(crate) struct GpuDevice {
    pub(crate) device: wgpu::Device,
    /// `None` only while the device is dropped.
    queue: Option<wgpu::Queue>,
    pub(crate) limits: wgpu::Limits,
    pub(crate) info: AdapterInfo,
    reports: Arc<DeviceReports>,
    timeout: Duration,
}

impl GpuDevice {
    /// Opens an adapter with all its limits, and only with the given features.
    pub(crate) fn open(
        (adapter, info): (wgpu::Adapter, AdapterInfo),
        features: wgpu::Features,
        timeout: Duration,
    ) -> Result<Self, GpuError> {
        let limits = adapter.limits();
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("ethash"),
            required_features: features,
            required_limits: limits.clone(),
            ..Default::default()
        }))
        .map_err(|error| GpuError::DeviceRefused {
            adapter: info.name.clone(),
            reason: error.to_string(),
        })?;
        let reports = Arc::new(DeviceReports::default());
        let on_lost = Arc::clone(&reports);
        device.set_device_lost_callback(move |reason, message| {
            let text = if message.is_empty() {
                format!("{reason:?}")
            } else {
                message
            };
            on_lost.lost.lock().get_or_insert(text);
        });
        let on_error = Arc::clone(&reports);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            on_error
                .uncaptured
                .lock()
                .get_or_insert_with(|| error.to_string());
        }));
        Ok(Self {
            device,
            queue: Some(queue),
            limits,
            info,
            reports,
            timeout,
        })
    }

    /// The queue of the device.
    pub(crate) const fn queue(&self) -> &wgpu::Queue {
        self.queue.as_ref().expect("the queue is taken only by drop")
    }

    /// Fails if the device was lost, or has reported an error that no scope caught.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        if let Some(reason) = self.reports.lost.lock().clone() {
            return Err(GpuError::DeviceLost { reason });
        }
        if self.reports.hung.load(Ordering::Relaxed) {
            return Err(GpuError::DeviceLost {
                reason: "given up after a timeout".to_owned(),
            });
        }
        match self.reports.uncaptured.lock().take() {
            Some(reason) => Err(GpuError::Rejected {
                what: "command".to_owned(),
                reason,
            }),
            None => Ok(()),
        }
    }

    /// Runs `make` and returns its result, or the first error that it caused.
    ///
    /// The error message names `what`, and `bytes` if an allocation is refused.
    pub(crate) fn scoped<T>(&self, what: &str, bytes: u64, make: impl FnOnce() -> T) -> Result<T, GpuError> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = make();
        let rejected = [
            pollster::block_on(validation.pop()),
            pollster::block_on(internal.pop()),
        ];
        let refused = pollster::block_on(memory.pop());
        // On a lost device everything fails with various messages. The loss is the error to report.
        self.check()?;
        if let Some(error) = refused {
            let reason = error.to_string();
            return Err(GpuError::AllocationRefused {
                what: what.to_owned(),
                bytes,
                reason,
            });
        }
        if let Some(error) = rejected.into_iter().flatten().next() {
            let reason = error.to_string();
            return Err(GpuError::Rejected {
                what: what.to_owned(),
                reason,
            });
        }
        Ok(made)
    }

    /// Allocates a buffer.
    pub(crate) fn buffer(
        &self,
        what: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, GpuError> {
        self.scoped(what, bytes, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(what),
                size: bytes,
                usage,
                mapped_at_creation: false,
            })
        })
    }

    /// Allocates a uniform buffer and writes `bytes` to it.
    pub(crate) fn uniform(&self, what: &str, bytes: &[u8]) -> Result<wgpu::Buffer, GpuError> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(what, bytes.len() as u64, usage)?;
        self.queue().write_buffer(&buffer, 0, bytes);
        Ok(buffer)
    }

    /// Records commands and submits them.
    pub(crate) fn submit(
        &self,
        what: &str,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        self.scoped(what, 0, || {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            record(&mut encoder);
            self.queue().submit([encoder.finish()])
        })
    }

    /// Whether `submission` has finished. Does not block.
    pub(crate) fn is_finished(&self, submission: &wgpu::SubmissionIndex) -> Result<bool, GpuError> {
        self.poll(submission, Duration::ZERO)
    }

    /// Waits for `submission` and for the callbacks that depend on it.
    pub(crate) fn wait(
        &self,
        what: &'static str,
        submission: &wgpu::SubmissionIndex,
    ) -> Result<(), GpuError> {
        if self.poll(submission, self.timeout)? {
            return Ok(());
        }
        self.reports.hung.store(true, Ordering::Relaxed);
        Err(GpuError::Timeout {
            what,
            waited_ms: self.timeout.as_millis() as u64,
        })
    }

    fn poll(&self, submission: &wgpu::SubmissionIndex, timeout: Duration) -> Result<bool, GpuError> {
        self.check()?;
        let poll = wgpu::PollType::Wait {
            submission_index: Some(submission.clone()),
            timeout: Some(timeout),
        };
        // If a driver loses its device, the callback above is called and then `poll` panics.
        // `poll` does not touch state of this program, so nothing is left inconsistent.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        self.check()?;
        match polled {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error)) => Err(GpuError::DeviceLost {
                reason: error.to_string(),
            }),
            Err(_) => {
                let reason = "waiting for the device failed".to_owned();
                self.reports.lost.lock().get_or_insert_with(|| reason.clone());
                Err(GpuError::DeviceLost { reason })
            }
        }
    }

    /// Copies part of a buffer to the host. For small or rare reads.
    pub(crate) fn read(&self, source: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.buffer("read-back", bytes, usage)?;
        let submission = self.submit("read-back", |encoder| {
            encoder.copy_buffer_to_buffer(source, offset, &staging, 0, bytes);
        })?;
        let readback = BufferReadback::start(&staging);
        self.wait("read-back", &submission)?;
        readback.take(self, &staging, <[u8]>::to_vec)
    }

    /// Makes the device unusable, like a reset of the driver.
    pub(crate) fn destroy(&self) {
        self.device.destroy();
    }
}

impl Drop for GpuDevice {
    fn drop(&mut self) {
        let queue = self.queue.take();
        if self.reports.hung.load(Ordering::Relaxed) {
            // Dropping the queue would wait for a device that does not answer. So its memory stays
            // allocated until the driver resets the device.
            std::mem::forget(queue);
            return;
        }
        // The queue asserts that it ends idle; a lost device need not.
        if catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err() {
            tracing::warn!(adapter = self.info.name, "the device did not close cleanly");
        }
    }
}

/// A buffer that is being mapped so that the host can read it.
pub(crate) struct BufferReadback {
    done: Arc<Mutex<Option<Result<(), wgpu::BufferAsyncError>>>>,
}

impl BufferReadback {
    /// Requests the mapping of the whole `buffer`, after all earlier submissions have finished.
    pub(crate) fn start(buffer: &wgpu::Buffer) -> Self {
        let done = Arc::new(Mutex::new(None));
        let result_slot = Arc::clone(&done);
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            *result_slot.lock() = Some(result)
        });
        Self { done }
    }

    /// Reads the buffer with `read` and unmaps it. The submission must have finished.
    pub(crate) fn take<T>(
        self,
        gpu: &GpuDevice,
        buffer: &wgpu::Buffer,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, GpuError> {
        let rejected = |reason: String| GpuError::Rejected {
            what: "mapping".to_owned(),
            reason,
        };
        match self.done.lock().take() {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                gpu.check()?;
                return Err(rejected(error.to_string()));
            }
            None => {
                gpu.check()?;
                return Err(rejected("not mapped although its submission finished".to_owned()));
            }
        }
        let value = match buffer.get_mapped_range(..) {
            Ok(view) => read(&view),
            Err(error) => {
                gpu.check()?;
                return Err(rejected(error.to_string()));
            }
        };
        buffer.unmap();
        Ok(value)
    }
}
