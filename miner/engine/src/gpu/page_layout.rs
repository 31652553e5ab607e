//! Spreads the rows of a table, the light cache or the dataset, over as many buffers as the
//! adapter needs.
//!
//! Each buffer is a page. A table that one buffer can hold is one page. Otherwise a page holds a
//! power of two of rows and at most [`PAGE_BYTES_MAX`] bytes, or as many rows as the limits allow.
//! Knows the limits of an adapter, and no device.

use super::error::GpuError;

/// Size of the largest page with a power of two of rows. On most drivers a binding cannot have two
/// GiB, but one byte less.
const PAGE_BYTES_MAX: u64 = 1 << 30;
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

/// The distribution of the rows of a table over pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// Number of rows in the table.
    pub(crate) rows: u32,
    /// Bytes of a row.
    pub(crate) row_bytes: u64,
    /// Rows in each page but the last.
    pub(crate) page_rows: u32,
    /// Number of pages.
    pub(crate) pages: u32,
}

impl PageLayout {
    /// Computes the layout with the largest pages that `limits` and `max_page_rows` allow.
    ///
    /// If the table needs several pages and `large` is not set, a page holds a power of two of rows
    /// and at most [`PAGE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`GpuError::AdapterTooSmall`] if a row fits in no page, or if the adapter cannot bind so
    /// many pages.
    pub(crate) fn new(
        rows: u32,
        row_bytes: u64,
        limits: &wgpu::Limits,
        max_page_rows: Option<u32>,
        large: bool,
    ) -> Result<Self, GpuError> {
        let bytes_max = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let rows_max = (bytes_max / row_bytes).min(max_page_rows.unwrap_or(u32::MAX).into());
        let page_rows = if u64::from(rows) <= rows_max || large {
            rows_max as u32
        } else {
            let shift = rows_max.min(PAGE_BYTES_MAX / row_bytes).checked_ilog2();
            shift.map_or(0, |shift| 1 << shift)
        };
        if page_rows == 0 {
            return Err(GpuError::AdapterTooSmall {
                what: "max_storage_buffer_binding_size",
                got: bytes_max,
                needed: row_bytes,
            });
        }
        let pages = u64::from(rows.div_ceil(page_rows));
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
            page_rows,
            pages: pages as u32,
        })
    }

    /// Returns the first row of a page.
    pub(crate) const fn first_row(&self, page: u32) -> u32 {
        page * self.page_rows
    }

    /// Returns the number of rows in a page. The last page may have fewer rows than the others.
    pub(crate) fn rows_in(&self, page: u32) -> u32 {
        (self.rows - self.first_row(page)).min(self.page_rows)
    }

    /// Returns the page of a row, and the number of the row within the page.
    pub(crate) const fn locate(&self, row: u32) -> (u32, u32) {
        (row / self.page_rows, row % self.page_rows)
    }
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
        let check = |rows, limits: &wgpu::Limits, max_page_rows, large, page_rows, pages| {
            let expected = PageLayout {
                rows,
                row_bytes: 128,
                page_rows,
                pages,
            };
            let layout = PageLayout::new(rows, 128, limits, max_page_rows, large);
            assert_eq!(layout, Ok(expected));
        };
        // Epoch 385 has the first dataset above 4 GiB.
        let items = 33_619_919;
        let card = limits((1 << 31) - 1, 1 << 40, 32);
        check(items, &card, None, false, 1 << 23, 5);
        check(items, &card, None, true, (1 << 24) - 1, 3);
        let software = limits(1 << 27, (1 << 31) - 1, 34);
        check(items, &software, None, false, 1 << 20, 33);
        // A table that one buffer can hold is one page, also if it has more than a GiB.
        check(12_000_011, &card, None, false, (1 << 24) - 1, 1);
        let small = limits(1 << 27, 1 << 30, 32);
        check(256, &small, Some(100), false, 64, 4);
        check(256, &small, Some(100), true, 100, 3);
        check(256, &small, Some(256), false, 256, 1);
    }

    #[test]
    fn each_row_is_in_the_page_of_the_layout() {
        let layout = PageLayout::new(1000, 128, &limits(1 << 27, 1 << 27, 32), Some(256), false).unwrap();
        assert_eq!(
            (layout.pages, layout.rows_in(0), layout.rows_in(3)),
            (4, 256, 232)
        );
        assert_eq!(layout.locate(999), (3, 231));
        assert_eq!(layout.first_row(3), 768);
    }

    #[test]
    fn the_error_names_a_limit_that_is_too_low() {
        let layout = PageLayout::new(33_619_919, 128, &limits(1 << 27, 1 << 30, 32), None, false);
        let what = "max_storage_buffers_per_shader_stage";
        assert_eq!(
            layout,
            Err(GpuError::AdapterTooSmall {
                what,
                got: 32,
                needed: 34
            })
        );
        for large in [false, true] {
            let layout = PageLayout::new(256, 128, &limits(64, 1 << 30, 32), None, large);
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
}
