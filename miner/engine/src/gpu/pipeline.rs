//! Compiles a kernel into a compute pipeline. All kernels have the same layout: bind group 0 holds
//! the parameters, the round constants and the output, and bind group 1 holds the pages that the
//! kernel reads.
//!
//! Knows layouts and pipelines, and neither datasets nor nonces.

use super::device::GpuDevice;
use super::error::GpuError;
use super::kernel_form::KernelForm;
use super::pages::{PagedBuffer, bind, storage_entry};
use super::shaders::ROUND_CONSTANTS;

/// Bytes of the counter of a kernel, of which it uses the first four.
const COUNTER_BYTES: u64 = 16;

/// A compiled kernel and the pages that it reads.
pub(crate) struct KernelPipeline {
    pipeline: wgpu::ComputePipeline,
    output_layout: wgpu::BindGroupLayout,
    round_constants: wgpu::Buffer,
    page_layout: wgpu::BindGroupLayout,
    pages: wgpu::BindGroup,
    /// The counter of a kernel that has one.
    counter: Option<wgpu::Buffer>,
    workgroup_size: u32,
}

/// The source of a kernel.
pub(crate) struct KernelSource<'a> {
    /// The entry point. It also names the kernel in messages.
    pub(crate) entry: &'static str,
    /// The text of the module.
    pub(crate) wgsl: String,
    /// The values of the `override` constants, except the workgroup size.
    pub(crate) constants: &'a [(&'a str, f64)],
    /// Invocations in a workgroup.
    pub(crate) workgroup_size: u32,
    /// Whether the kernel has a counter, as binding 3 of group 0.
    pub(crate) has_counter: bool,
    /// Whether wgpu adds its own checks of indices and loops.
    pub(crate) runtime_checks: bool,
}

impl KernelPipeline {
    /// Compiles `source` for `pages`.
    pub(crate) fn new(
        gpu: &GpuDevice,
        source: &KernelSource<'_>,
        pages: &PagedBuffer,
    ) -> Result<Self, GpuError> {
        use wgpu::BufferBindingType::{Storage, Uniform};
        check_workgroup(source.workgroup_size, &gpu.limits)?;
        let output = Storage { read_only: false };
        let types = [Uniform, Uniform, output, output];
        let bindings = if source.has_counter { 4 } else { 3 };
        let entries: Vec<_> = (0..bindings)
            .zip(types)
            .map(|(binding, ty)| storage_entry(binding, ty))
            .collect();
        let output_layout = gpu.scoped("layout of the parameters", 0, || {
            gpu.device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: Some("parameters"),
                    entries: &entries,
                })
        })?;
        let page_layout = pages.layout(gpu)?;
        let module = gpu.scoped(source.entry, 0, || {
            let descriptor = wgpu::ShaderModuleDescriptor {
                label: Some(source.entry),
                source: wgpu::ShaderSource::Wgsl(source.wgsl.as_str().into()),
            };
            if source.runtime_checks {
                return gpu.device.create_shader_module(descriptor);
            }
            // SAFETY: without runtime checks, every index must be valid and every loop must end.
            // - A row number is a remainder modulo the number of rows. So its page and its place
            //   within the page exist (see `PageLayout`).
            // - An output index is below the length of the buffer, which the kernel looks up, or
            //   below a count that the host derives from that length (see `SeedBuffers::run`).
            // - An index into workgroup memory is within the eight invocations of a group, and a
            //   workgroup consists of whole groups (see `check_workgroup`).
            // - All divisors are sizes of an epoch, which are not 0.
            // - All loops run up to a constant.
            unsafe {
                gpu.device
                    .create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
            }
        })?;
        let mut constants = source.constants.to_vec();
        constants.push(("WORKGROUP_SIZE", source.workgroup_size.into()));
        let pipeline = gpu.scoped(source.entry, 0, || {
            let layout = gpu
                .device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: Some(source.entry),
                    bind_group_layouts: &[Some(&output_layout), Some(&page_layout)],
                    immediate_size: 0,
                });
            gpu.device
                .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(source.entry),
                    layout: Some(&layout),
                    module: &module,
                    entry_point: Some(source.entry),
                    compilation_options: wgpu::PipelineCompilationOptions {
                        constants: &constants,
                        ..Default::default()
                    },
                    cache: None,
                })
        })?;
        Ok(Self {
            pipeline,
            output_layout,
            round_constants: gpu.uniform("round constants", bytemuck::cast_slice(&ROUND_CONSTANTS))?,
            pages: pages.bind(gpu, &page_layout)?,
            page_layout,
            counter: source.has_counter.then(|| counter_buffer(gpu)).transpose()?,
            workgroup_size: source.workgroup_size,
        })
    }

    /// Returns the same kernel for other pages. They must be as many as before, and none may be
    /// shorter.
    pub(crate) fn with_pages(&self, gpu: &GpuDevice, pages: &PagedBuffer) -> Result<Self, GpuError> {
        Ok(Self {
            pipeline: self.pipeline.clone(),
            output_layout: self.output_layout.clone(),
            round_constants: self.round_constants.clone(),
            page_layout: self.page_layout.clone(),
            pages: pages.bind(gpu, &self.page_layout)?,
            counter: self.counter.clone(),
            workgroup_size: self.workgroup_size,
        })
    }

    /// Makes bind group 0 from the parameters and the output of the kernel.
    pub(crate) fn bind(
        &self,
        gpu: &GpuDevice,
        parameters: &wgpu::Buffer,
        output: &wgpu::Buffer,
    ) -> Result<wgpu::BindGroup, GpuError> {
        let mut buffers = vec![parameters, &self.round_constants, output];
        buffers.extend(&self.counter);
        bind(gpu, &self.output_layout, &buffers)
    }

    /// Records a dispatch of at least `invocations`.
    pub(crate) fn dispatch(
        &self,
        gpu: &GpuDevice,
        encoder: &mut wgpu::CommandEncoder,
        parameters: &wgpu::BindGroup,
        invocations: u32,
    ) {
        let (x, y) = grid(
            invocations.div_ceil(self.workgroup_size),
            gpu.limits.max_compute_workgroups_per_dimension,
        );
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, parameters, &[]);
        pass.set_bind_group(1, &self.pages, &[]);
        pass.dispatch_workgroups(x, y, 1);
    }
}

/// Allocates the counter of a kernel. It begins at 0.
fn counter_buffer(gpu: &GpuDevice) -> Result<wgpu::Buffer, GpuError> {
    gpu.buffer("counter", COUNTER_BYTES, wgpu::BufferUsages::STORAGE)
}

/// Fails unless a workgroup of `size` invocations consists of whole groups of eight and `limits`
/// allow it.
pub(crate) fn check_workgroup(size: u32, limits: &wgpu::Limits) -> Result<(), GpuError> {
    if size == 0 || !size.is_multiple_of(KernelForm::LANES_PER_HASH) {
        return Err(GpuError::WorkgroupSize {
            got: size,
            multiple_of: KernelForm::LANES_PER_HASH,
        });
    }
    let largest = limits.max_compute_invocations_per_workgroup;
    if size > largest {
        return Err(GpuError::AdapterTooSmall {
            what: "max_compute_invocations_per_workgroup",
            got: largest.into(),
            needed: size.into(),
        });
    }
    Ok(())
}

/// Arranges at least `groups` workgroups as x times y, both at most `side`. Few workgroups are
/// idle.
fn grid(groups: u32, side: u32) -> (u32, u32) {
    let y = groups.div_ceil(side).max(1);
    (groups.div_ceil(y), y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_covers_all_groups_within_the_limit() {
        for groups in [1, 2, 65_535, 65_536, 65_537, 1 << 24, (1 << 26) - 1] {
            let (x, y) = grid(groups, 65_535);
            assert!(x <= 65_535 && y <= 65_535, "{groups}: {x} x {y}");
            let idle = u64::from(x) * u64::from(y) - u64::from(groups);
            assert!(idle < u64::from(y), "{groups}: {x} x {y}");
        }
        assert_eq!(grid(65_535, 65_535), (65_535, 1));
    }

    #[test]
    fn a_workgroup_must_consist_of_whole_groups_of_eight() {
        let limits = wgpu::Limits {
            max_compute_invocations_per_workgroup: 256,
            ..wgpu::Limits::default()
        };
        for size in [8, 32, 40, 256] {
            assert_eq!(check_workgroup(size, &limits), Ok(()), "{size}");
        }
        for got in [0, 1, 12, 63, 257] {
            let refused = GpuError::WorkgroupSize { got, multiple_of: 8 };
            assert_eq!(check_workgroup(got, &limits), Err(refused));
        }
        let too_large = check_workgroup(264, &limits);
        assert!(
            matches!(
                too_large,
                Err(GpuError::AdapterTooSmall {
                    got: 256,
                    needed: 264,
                    ..
                })
            ),
            "{too_large:?}"
        );
    }
}
