//! Generates dataset items on the device from the light cache.
//!
//! The work is cut into slices of a steered time, so that a display stays alive and a cancelled
//! generation ends soon. Knows nothing of nonces.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ethash::{ITEM_BYTES, LightCache, ROW_BYTES};

use super::device::Gpu;
use super::kernel::{Kernel, KernelSource};
use super::layout::Slice;
use super::pace::Pace;
use super::pages::{PagePlan, Pages};
use super::shaders::{GENERATE, dataset_module};
use super::{GpuError, GpuOptions};

/// Nodes (half items) in an item.
const NODES_PER_ITEM: u32 = (ITEM_BYTES / ROW_BYTES) as u32;
/// Time of one slice. Display drivers give up on a dispatch after two seconds or so.
const SLICE_TIME: Duration = Duration::from_millis(50);
/// Nodes in the first slice, before anything is known of the device.
const FIRST_SLICE_NODES: u32 = 1024;
/// Slices given to the device at once: one runs, one waits.
const SLICES_IN_FLIGHT: usize = 2;

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Items finished.
    pub items_done: u32,
    /// Items asked for.
    pub items_total: u32,
}

/// The kernel that generates items, with the light cache it reads.
pub(crate) struct Generator {
    kernel: Kernel,
    parameters: wgpu::Buffer,
    pace: Pace,
}

impl Generator {
    /// Brings the light cache to the device.
    pub(crate) fn new(gpu: &Gpu, options: &GpuOptions, cache: &LightCache) -> Result<Self, GpuError> {
        let plan = PagePlan::new(cache.rows(), ROW_BYTES as u64, &gpu.limits, options.max_page_rows)?;
        let pages = Pages::allocate(gpu, "light cache", plan)?;
        pages.upload(gpu, "light cache", cache.as_bytes())?;
        let source = KernelSource {
            entry: GENERATE,
            wgsl: dataset_module(plan.pages),
            constants: &[
                ("CACHE_ROWS", plan.rows.into()),
                ("CACHE_PAGE_SHIFT", plan.shift.into()),
            ],
            workgroup_size: options.workgroup_size,
            runtime_checks: options.runtime_checks,
        };
        Ok(Self {
            kernel: Kernel::new(gpu, &source, &pages)?,
            parameters: gpu.uniform("slice", bytemuck::bytes_of(&Slice::default()))?,
            // Even, so that a slice never ends within an item.
            pace: Pace::new(SLICE_TIME, 2 * options.workgroup_size, FIRST_SLICE_NODES, 1 << 30),
        })
    }

    /// Fills `pages` with the items from `first_item` on.
    ///
    /// `progress` is told after each slice; a break from it ends the generation.
    pub(crate) fn fill(
        &mut self,
        gpu: &Gpu,
        pages: &Pages,
        first_item: u32,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), GpuError> {
        let items_total = pages.plan.rows;
        for page in 0..pages.plan.pages {
            let items_before = pages.plan.first_row(page);
            let nodes = Nodes {
                first: (first_item + items_before) * NODES_PER_ITEM,
                count: pages.plan.rows_in(page) * NODES_PER_ITEM,
            };
            self.fill_page(gpu, &pages.buffers[page as usize], nodes, &mut |nodes_done| {
                let items_done = items_before + nodes_done / NODES_PER_ITEM;
                match progress(Progress {
                    items_done,
                    items_total,
                }) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(GpuError::Cancelled {
                        done: items_done,
                        total: items_total,
                    }),
                }
            })?;
        }
        Ok(())
    }

    fn fill_page(
        &mut self,
        gpu: &Gpu,
        page: &wgpu::Buffer,
        nodes: Nodes,
        finished: &mut dyn FnMut(u32) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let output = self.kernel.bind(gpu, &self.parameters, page)?;
        let mut in_flight = VecDeque::new();
        let (mut launched, mut done) = (0, 0);
        let mut last_end = Instant::now();
        while done < nodes.count {
            while launched < nodes.count && in_flight.len() < SLICES_IN_FLIGHT {
                let count = self.pace.size().min(nodes.count - launched);
                let slice = Slice {
                    first_node: nodes.first + launched,
                    node_count: count,
                    page_first_node: nodes.first,
                    unused: 0,
                };
                // One buffer serves all slices: writes and dispatches run in the order given.
                gpu.queue()
                    .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&slice));
                let submission = gpu.submit("dataset slice", |encoder| {
                    self.kernel.dispatch(gpu, encoder, &output, count);
                })?;
                in_flight.push_back((submission, count, Instant::now()));
                launched += count;
            }
            let Some((submission, count, start)) = in_flight.pop_front() else {
                break;
            };
            let exact = !gpu.is_finished(&submission)?;
            gpu.wait("dataset slice", &submission)?;
            let end = Instant::now();
            self.pace.record(count, end - start.max(last_end), exact);
            last_end = end;
            done += count;
            finished(done)?;
        }
        Ok(())
    }
}

/// Consecutive nodes.
#[derive(Clone, Copy)]
struct Nodes {
    first: u32,
    count: u32,
}
