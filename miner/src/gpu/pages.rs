//! Spreads a table of rows, the light cache or the dataset, over as many buffers as the adapter
//! needs.
//!
//! Each buffer is a page. A page holds a power of two of rows and at most [`PAGE_BYTES_MAX`] bytes.
//! Knows rows and buffers, and nothing of their content.

use super::device::GpuDevice;
use super::error::GpuError;

/// Size of the largest page. On most drivers a binding cannot have two GiB, but one byte less.
const PAGE_BYTES_MAX: u64 = 1 << 30;
/// Bytes uploaded at once. The driver keeps a copy until the device has taken them.
const UPLOAD_BYTES: usize = 8 << 20;
/// Number of storage buffers of a kernel that are not input pages: its results, or the page that it
/// writes.
const OTHER_STORAGE_BUFFERS: u32 = 1;

/// Returns the number of bytes of a page on an adapter whose buffers have at most `bytes_max`.
pub(crate) fn page_bytes(bytes_max: u64) -> u64 {
    let bytes = bytes_max.min(PAGE_BYTES_MAX);
    bytes.checked_ilog2().map_or(0, |shift| 1 << shift)
}

/// Returns the most pages that a kernel can bind.
pub(crate) fn pages_max(limits: &wgpu::Limits) -> u32 {
    let bindings = (limits.max_storage_buffers_per_shader_stage).min(limits.max_bindings_per_bind_group);
    bindings.saturating_sub(OTHER_STORAGE_BUFFERS)
}

/// How the rows of a table are spread over pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// Number of rows in the table.
    pub(crate) rows: u32,
    /// Bytes of a row.
    pub(crate) row_bytes: u64,
    /// The number of a row, shifted right by this, is the number of its page.
    pub(crate) shift: u32,
    /// Number of pages.
    pub(crate) pages: u32,
}

impl PageLayout {
    /// Computes the layout with the largest pages that `limits` and `max_page_rows` allow.
    ///
    /// # Errors
    /// [`GpuError::AdapterTooSmall`] if a row fits in no page, or if the adapter cannot bind so
    /// many pages.
    pub(crate) fn new(
        rows: u32,
        row_bytes: u64,
        limits: &wgpu::Limits,
        max_page_rows: Option<u32>,
    ) -> Result<Self, GpuError> {
        let bytes_max = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let rows_max = bytes_max.min(PAGE_BYTES_MAX) / row_bytes;
        let rows_max = rows_max.min(max_page_rows.map_or(u64::MAX, u64::from));
        let Some(shift) = rows_max.checked_ilog2() else {
            return Err(GpuError::AdapterTooSmall {
                what: "max_storage_buffer_binding_size",
                got: bytes_max,
                needed: row_bytes,
            });
        };
        let pages = u64::from(rows).div_ceil(1 << shift);
        let tightest = [
            (
                "max_storage_buffers_per_shader_stage",
                limits.max_storage_buffers_per_shader_stage,
            ),
            ("max_bindings_per_bind_group", limits.max_bindings_per_bind_group),
        ];
        for (what, got) in tightest {
            let needed = pages + u64::from(OTHER_STORAGE_BUFFERS);
            if needed > u64::from(got) {
                return Err(GpuError::AdapterTooSmall {
                    what,
                    got: got.into(),
                    needed,
                });
            }
        }
        Ok(Self {
            rows,
            row_bytes,
            shift,
            pages: pages as u32,
        })
    }

    /// Returns the first row of a page.
    pub(crate) fn first_row(&self, page: u32) -> u32 {
        page << self.shift
    }

    /// Returns the number of rows in a page. The last page may have fewer rows than the others.
    pub(crate) fn rows_in(&self, page: u32) -> u32 {
        (self.rows - self.first_row(page)).min(1 << self.shift)
    }

    /// Returns the page of a row, and the number of the row within the page.
    pub(crate) fn locate(&self, row: u32) -> (u32, u32) {
        (row >> self.shift, row & ((1 << self.shift) - 1))
    }
}

/// A table on the device.
pub(crate) struct PagedBuffer {
    pub(crate) layout: PageLayout,
    pub(crate) buffers: Vec<wgpu::Buffer>,
}

impl PagedBuffer {
    /// Allocates all pages. Their content is zero.
    pub(crate) fn allocate(gpu: &GpuDevice, what: &str, layout: PageLayout) -> Result<Self, GpuError> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let buffers = (0..layout.pages)
            .map(|page| {
                let name = format!("{what} page {} of {}", page + 1, layout.pages);
                gpu.buffer(&name, u64::from(layout.rows_in(page)) * layout.row_bytes, usage)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { layout, buffers })
    }

    /// Writes the whole table. `bytes` holds the rows one after another.
    pub(crate) fn upload(&self, gpu: &GpuDevice, what: &'static str, bytes: &[u8]) -> Result<(), GpuError> {
        let page_bytes = (self.layout.row_bytes as usize) << self.layout.shift;
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
        let rows = 1 << self.layout.shift;
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
        let entries: Vec<_> = (0..self.layout.pages)
            .map(|binding| storage_entry(binding, wgpu::BufferBindingType::Storage { read_only: true }))
            .collect();
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

/// Returns the layout entry of a buffer in a compute kernel.
pub(crate) fn storage_entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(binding: u64, buffer: u64, storage_buffers: u32) -> wgpu::Limits {
        wgpu::Limits {
            max_storage_buffer_binding_size: binding,
            max_buffer_size: buffer,
            max_storage_buffers_per_shader_stage: storage_buffers,
            ..Default::default()
        }
    }

    #[test]
    fn pages_are_as_large_as_the_limits_allow() {
        // Epoch 385 has the first dataset above 4 GiB.
        let items = 33_619_919;
        let layout = PageLayout::new(items, 128, &limits((1 << 31) - 1, 1 << 40, 32), None);
        assert_eq!(
            layout,
            Ok(PageLayout {
                rows: items,
                row_bytes: 128,
                shift: 23,
                pages: 5
            })
        );
        let layout = PageLayout::new(items, 128, &limits(1 << 27, (1 << 31) - 1, 34), None);
        assert_eq!(
            layout,
            Ok(PageLayout {
                rows: items,
                row_bytes: 128,
                shift: 20,
                pages: 33
            })
        );
        let layout = PageLayout::new(256, 128, &limits(1 << 27, 1 << 30, 32), Some(100));
        assert_eq!(
            layout,
            Ok(PageLayout {
                rows: 256,
                row_bytes: 128,
                shift: 6,
                pages: 4
            })
        );
    }

    #[test]
    fn each_row_is_in_the_page_of_the_layout() {
        let layout = PageLayout::new(1000, 128, &limits(1 << 27, 1 << 27, 32), Some(256)).unwrap();
        assert_eq!(
            (layout.pages, layout.rows_in(0), layout.rows_in(3)),
            (4, 256, 232)
        );
        assert_eq!(layout.locate(999), (3, 231));
        assert_eq!(layout.first_row(3), 768);
    }

    #[test]
    fn the_error_names_a_limit_that_is_too_low() {
        let layout = PageLayout::new(33_619_919, 128, &limits(1 << 27, 1 << 30, 32), None);
        let what = "max_storage_buffers_per_shader_stage";
        assert_eq!(
            layout,
            Err(GpuError::AdapterTooSmall {
                what,
                got: 32,
                needed: 34
            })
        );
        let layout = PageLayout::new(256, 128, &limits(64, 1 << 30, 32), None);
        let what = "max_storage_buffer_binding_size";
        assert_eq!(
            layout,
            Err(GpuError::AdapterTooSmall {
                what,
                got: 64,
                needed: 128
            })
        );
    }
}
