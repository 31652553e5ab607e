//! Generates dataset items on the device from the light cache.
//!
//! The work is divided into slices of a short target time. So displays are not blocked, a cancelled
//! generation ends soon, and a dataset can be generated between the batches of a search. Knows no
//! nonces.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ethash::{DATASET_PARENTS, ITEM_BYTES, LightCache, ROW_BYTES};

use crate::gpu::device::GpuDevice;
use crate::gpu::dispatch_size::DispatchSizer;
use crate::gpu::error::GpuError;
use crate::gpu::kernel_form::GenerationForm;
use crate::gpu::options::GpuOptions;
use crate::gpu::page_layout::PageLayout;
use crate::gpu::pages::PagedBuffer;
use crate::gpu::params::GenerateParams;
use crate::gpu::pipeline::{KernelPipeline, KernelSource};
use crate::gpu::shaders::{dataset_entry, dataset_module};

/// Nodes in an item. A node is half an item.
const NODES_PER_ITEM: u32 = (ITEM_BYTES / ROW_BYTES) as u32;
/// Target time of a slice. Drivers of displays abort a dispatch after about two seconds.
const SLICE_TIME: Duration = Duration::from_millis(50);
/// Nodes in the first slice, when the speed of the device is unknown.
const FIRST_SLICE_NODES: u32 = 1024;
/// Number of slices in flight: one runs, one waits.
const SLICES_IN_FLIGHT: usize = 2;
/// During a search, slices are smaller by this factor, so that the search is delayed less.
const SLICE_DIVISOR_DURING_SEARCH: u32 = 2;
/// Tickets that are drawn until a sliced generation reads the next slice of the light cache. An
/// invocation draws one in 32 turns, so with 100,000 invocations running this is about five turns.
const TICKETS_PER_SLICE: u32 = 1 << 14;
/// Turns in which an invocation of a sliced generation waits for the slice of a parent, for each
/// slice and on average over all parents. Then it reads the others without waiting.
const TURNS_PER_PARENT: u32 = 2;
/// The most turns of a sliced generation.
const TURNS_MAX: f64 = 65_536.0;
/// Invocations in a workgroup.
const WORKGROUP_SIZE: u32 = 64;

/// The progress of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationProgress {
    /// Items finished.
    pub items_done: u32,
    /// Items requested.
    pub items_total: u32,
}

/// Copies the light cache to the device.
pub(crate) fn upload_cache(
    gpu: &GpuDevice,
    options: &GpuOptions,
    cache: &LightCache,
) -> Result<PagedBuffer, GpuError> {
    let layout = PageLayout::new(
        cache.rows(),
        ROW_BYTES as u64,
        &gpu.limits,
        options.max_page_rows,
        options.large_pages,
    )?;
    let pages = PagedBuffer::allocate(gpu, "light cache", layout)?;
    pages.upload(gpu, "light cache", cache.as_bytes())?;
    Ok(pages)
}

/// Allocates the pages of a table of `items` items.
pub(crate) fn allocate(
    gpu: &GpuDevice,
    options: &GpuOptions,
    what: &str,
    items: u32,
) -> Result<PagedBuffer, GpuError> {
    let layout = PageLayout::new(
        items,
        ITEM_BYTES as u64,
        &gpu.limits,
        options.max_page_items,
        options.large_pages,
    )?;
    PagedBuffer::allocate(gpu, what, layout)
}

/// A dataset, or a part of one, that is being generated.
pub(crate) struct DatasetGeneration {
    kernel: KernelPipeline,
    parameters: wgpu::Buffer,
    sizer: DispatchSizer,
    pages: PagedBuffer,
    /// The item in the first row of `pages`.
    first_item: u32,
    /// The page of the slices that are being launched, and the bind group with that page.
    output: Option<(u32, wgpu::BindGroup)>,
    launched: u32,
    done: u32,
    in_flight: VecDeque<SliceInFlight>,
    last_end: Instant,
}

struct SliceInFlight {
    submission: wgpu::SubmissionIndex,
    nodes: u32,
    start: Instant,
}

impl DatasetGeneration {
    /// Begins to generate the items from `first_item` on into `pages`. `slice_nodes` is the size of
    /// a slice, if it is known from an earlier generation.
    pub(crate) fn begin(
        gpu: &GpuDevice,
        options: &GpuOptions,
        cache: &LightCache,
        pages: PagedBuffer,
        first_item: u32,
        slice_nodes: Option<u32>,
    ) -> Result<Self, GpuError> {
        let rows = upload_cache(gpu, options, cache)?;
        let form = match options.generation {
            Some(GenerationForm::Sliced { slices }) => {
                GenerationForm::in_slices(slices.min(rows.layout.rows))
            }
            Some(form) => form,
            None => GenerationForm::usual_on(&gpu.info),
        };
        if let Some((what, got, needed)) = form.missing_on(&gpu.info) {
            return Err(GpuError::AdapterTooSmall {
                what,
                got: got.into(),
                needed: needed.into(),
            });
        }
        let mut constants = vec![
            ("CACHE_ROWS", rows.layout.rows.into()),
            ("CACHE_PAGE_ROWS", rows.layout.page_rows.into()),
        ];
        if let GenerationForm::Sliced { slices } = form {
            constants.extend([
                ("CACHE_SLICES", f64::from(slices)),
                ("SLICE_ROWS", rows.layout.rows.div_ceil(slices).into()),
                ("TICKETS_PER_SLICE", TICKETS_PER_SLICE.into()),
                (
                    "TURNS_MAX",
                    (f64::from(TURNS_PER_PARENT) * f64::from(slices) * f64::from(DATASET_PARENTS))
                        .min(TURNS_MAX),
                ),
            ]);
        }
        let source = KernelSource {
            entry: dataset_entry(form),
            wgsl: dataset_module(rows.layout.pages, form),
            constants: &constants,
            workgroup_size: WORKGROUP_SIZE,
            has_counter: matches!(form, GenerationForm::Sliced { .. }),
            runtime_checks: options.runtime_checks,
        };
        let first_slice = slice_nodes.unwrap_or(FIRST_SLICE_NODES);
        Ok(Self {
            kernel: KernelPipeline::new(gpu, &source, &rows)?,
            parameters: gpu.uniform("slice", bytemuck::bytes_of(&GenerateParams::default()))?,
            // The granule is even, so that no slice ends within an item.
            sizer: DispatchSizer::new(SLICE_TIME, 2 * WORKGROUP_SIZE, first_slice, 1 << 30),
            pages,
            first_item,
            output: None,
            launched: 0,
            done: 0,
            in_flight: VecDeque::new(),
            last_end: Instant::now(),
        })
    }

    /// Returns the progress.
    pub(crate) const fn progress(&self) -> GenerationProgress {
        GenerationProgress {
            items_done: self.done / NODES_PER_ITEM,
            items_total: self.pages.layout.rows,
        }
    }

    /// Returns the number of nodes in a slice of the target time, as far as it is known.
    pub(crate) const fn slice_nodes(&self) -> u32 {
        self.sizer.size()
    }

    /// Generates all remaining items.
    ///
    /// `progress` is called after each slice. A break from it cancels the generation.
    pub(crate) fn finish(
        &mut self,
        gpu: &GpuDevice,
        progress: &mut dyn FnMut(GenerationProgress) -> ControlFlow<()>,
    ) -> Result<(), GpuError> {
        while self.done < self.nodes() {
            while self.launched < self.nodes() && self.in_flight.len() < SLICES_IN_FLIGHT {
                self.launch(gpu, self.sizer.size())?;
            }
            let Some(slice) = self.in_flight.pop_front() else {
                break;
            };
            let exact = !gpu.is_finished(&slice.submission)?;
            gpu.wait("dataset slice", &slice.submission)?;
            let end = Instant::now();
            self.sizer
                .record(slice.nodes, end - slice.start.max(self.last_end), exact);
            self.last_end = end;
            self.done += slice.nodes;
            let state = self.progress();
            if progress(state).is_break() {
                return Err(GpuError::Cancelled {
                    done: state.items_done,
                    total: state.items_total,
                });
            }
        }
        Ok(())
    }

    /// Launches the next slice unless one is still in flight. Never waits. Returns true when all
    /// items are generated.
    ///
    /// The device runs other work at the same time, so the time of a slice does not change the size
    /// of the next one.
    pub(crate) fn advance_during_search(&mut self, gpu: &GpuDevice) -> Result<bool, GpuError> {
        if let Some(slice) = self.in_flight.front() {
            if !gpu.is_finished(&slice.submission)? {
                return Ok(false);
            }
            self.done += slice.nodes;
            self.in_flight.pop_front();
        }
        if self.launched < self.nodes() {
            self.launch(gpu, (self.sizer.size() / SLICE_DIVISOR_DURING_SEARCH).max(1))?;
        }
        Ok(self.done == self.nodes())
    }

    /// Returns the pages. The rows of items that were not generated are zero.
    pub(crate) fn into_pages(self) -> PagedBuffer {
        self.pages
    }

    const fn nodes(&self) -> u32 {
        self.pages.layout.rows * NODES_PER_ITEM
    }

    /// Launches a slice of about `size` nodes, within one page.
    fn launch(&mut self, gpu: &GpuDevice, size: u32) -> Result<(), GpuError> {
        let layout = &self.pages.layout;
        let (page, _) = layout.locate(self.launched / NODES_PER_ITEM);
        let page_first = layout.first_row(page) * NODES_PER_ITEM;
        let page_end = page_first + layout.rows_in(page) * NODES_PER_ITEM;
        if self.output.as_ref().is_none_or(|(bound, _)| *bound != page) {
            let buffer = &self.pages.buffers[page as usize];
            self.output = Some((page, self.kernel.bind(gpu, &self.parameters, buffer)?));
        }
        // A slice of an odd number of nodes would end within an item.
        let nodes = size
            .next_multiple_of(NODES_PER_ITEM)
            .min(page_end - self.launched);
        let base = self.first_item * NODES_PER_ITEM;
        let slice = GenerateParams {
            first_node: base + self.launched,
            node_count: nodes,
            page_first_node: base + page_first,
            unused: 0,
        };
        // One buffer serves all slices, because the queue runs writes and dispatches in order.
        gpu.queue()
            .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&slice));
        let submission = gpu.submit("dataset slice", |encoder| {
            if let Some((_, output)) = &self.output {
                self.kernel.dispatch(gpu, encoder, output, nodes);
            }
        })?;
        self.in_flight.push_back(SliceInFlight {
            submission,
            nodes,
            start: Instant::now(),
        });
        self.launched += nodes;
        Ok(())
    }
}
