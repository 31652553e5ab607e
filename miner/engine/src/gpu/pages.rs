//! A table of rows, the light cache or the dataset, in the buffers of a device.
//!
//! Knows rows and buffers, and nothing of their content.

#[cfg(not(target_vendor = "apple"))]
use super::dedicated::dedicated_buffer;
use super::device::{GpuDevice, TABLE_USAGE};
use super::error::GpuError;
use super::page_layout::PageLayout;

/// Bytes uploaded at once. The driver keeps a copy until the device has taken them.
const UPLOAD_BYTES: usize = 8 << 20;

/// A table on the device.
pub(crate) struct PagedBuffer {
    pub(crate) layout: PageLayout,
    pub(crate) buffers: Vec<wgpu::Buffer>,
}

impl PagedBuffer {
    /// Allocates all pages. Their content is zero.
    pub(crate) fn allocate(gpu: &GpuDevice, what: &str, layout: PageLayout) -> Result<Self, GpuError> {
        let buffers = (0..layout.pages)
            .map(|page| {
                let name = format!("{what} page {} of {}", page + 1, layout.pages);
                page_buffer(gpu, &name, u64::from(layout.rows_in(page)) * layout.row_bytes)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { layout, buffers })
    }

    /// Writes the whole table. `bytes` holds the rows one after another.
    pub(crate) fn upload(&self, gpu: &GpuDevice, what: &'static str, bytes: &[u8]) -> Result<(), GpuError> {
        let page_bytes = self.layout.row_bytes as usize * self.layout.page_rows as usize;
        for (buffer, page) in self.buffers.iter().zip(bytes.chunks(page_bytes)) {
            for (number, chunk) in page.chunks(UPLOAD_BYTES).enumerate() {
                let offset = (number * UPLOAD_BYTES) as u64;
                gpu.scoped(what, chunk.len() as u64, || {
                    gpu.queue().write_buffer(buffer, offset, chunk);
                })?;
                let submission = gpu.submit(what, |_| {})?;
                gpu.wait(what, &submission)?;
            }
        }
        Ok(())
    }

    /// Returns each full page as a table of its own. They use the same buffers.
    pub(crate) fn full_pages(&self) -> Vec<Self> {
        let rows = self.layout.page_rows;
        let full = (0..self.layout.pages).filter(|page| self.layout.rows_in(*page) == rows);
        let layout = PageLayout {
            rows,
            pages: 1,
            ..self.layout
        };
        full.map(|page| Self {
            layout,
            buffers: vec![self.buffers[page as usize].clone()],
        })
        .collect()
    }

    /// Returns the layout of bind group 1, through which kernels read these pages.
    pub(crate) fn layout(&self, gpu: &GpuDevice) -> Result<wgpu::BindGroupLayout, GpuError> {
        let entry = |binding| storage_entry(binding, wgpu::BufferBindingType::Storage { read_only: true });
        let entries: Vec<_> = (0..self.layout.pages).map(entry).collect();
        gpu.scoped("layout of the pages", 0, || {
            gpu.device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: Some("pages"),
                    entries: &entries,
                })
        })
    }

    /// Returns bind group 1, through which kernels read these pages.
    pub(crate) fn bind(
        &self,
        gpu: &GpuDevice,
        layout: &wgpu::BindGroupLayout,
    ) -> Result<wgpu::BindGroup, GpuError> {
        bind(gpu, layout, &self.buffers.iter().collect::<Vec<_>>())
    }

    /// Copies rows to the host, one after another. The rows must exist.
    pub(crate) fn read(&self, gpu: &GpuDevice, first: u32, count: u32) -> Result<Vec<u8>, GpuError> {
        let mut bytes = Vec::with_capacity(count as usize * self.layout.row_bytes as usize);
        let rows_at_once = (UPLOAD_BYTES as u64 / self.layout.row_bytes) as u32;
        let (mut row, end) = (first, first + count);
        while row < end {
            let (page, row_in_page) = self.layout.locate(row);
            let rows = (end - row)
                .min(self.layout.rows_in(page) - row_in_page)
                .min(rows_at_once);
            let offset = u64::from(row_in_page) * self.layout.row_bytes;
            let length = u64::from(rows) * self.layout.row_bytes;
            bytes.extend(gpu.read(&self.buffers[page as usize], offset, length)?);
            row += rows;
        }
        Ok(bytes)
    }
}

/// Allocates a page, with memory of its own where that is possible. Its content is zero.
fn page_buffer(gpu: &GpuDevice, what: &str, bytes: u64) -> Result<wgpu::Buffer, GpuError> {
    #[cfg(not(target_vendor = "apple"))]
    if let Some(made) = dedicated_buffer(gpu, what, bytes) {
        return made;
    }
    gpu.buffer(what, bytes, TABLE_USAGE)
}

/// Returns the layout entry of a buffer in a compute kernel.
pub(crate) const fn storage_entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}

/// Makes a bind group of buffers with the bindings 0, 1, 2 and so on.
pub(crate) fn bind(
    gpu: &GpuDevice,
    layout: &wgpu::BindGroupLayout,
    buffers: &[&wgpu::Buffer],
) -> Result<wgpu::BindGroup, GpuError> {
    let entries: Vec<_> = (0..)
        .zip(buffers)
        .map(|(binding, buffer)| wgpu::BindGroupEntry {
            binding,
            resource: buffer.as_entire_binding(),
        })
        .collect();
    gpu.scoped("bind group", 0, || {
        gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        })
    })
}
