// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never releases them: for docs/guides/languages/rust.md. Has
// no Drop for Buffer, which is the leak.
use std::ffi::c_void;
use std::ptr::{null, null_mut};

type Handle = *mut c_void;

#[link(name = "OpenCL")]
extern "C" {
    fn clGetPlatformIDs(room: u32, platforms: *mut Handle, count: *mut u32) -> i32;
    fn clGetDeviceIDs(platform: Handle, kind: u64, room: u32, devices: *mut Handle,
                      count: *mut u32) -> i32;
    fn clCreateContext(properties: *const isize, count: u32, devices: *const Handle,
                       notify: *const c_void, data: Handle, error: *mut i32) -> Handle;
    fn clCreateBuffer(context: Handle, flags: u64, size: usize, host: Handle, error: *mut i32)
                      -> Handle;
    fn clReleaseContext(context: Handle) -> i32;
}

const ALL_DEVICES: u64 = 0xffff_ffff;
const READ_WRITE: u64 = 1;

mod video {
    use super::*;

    pub struct Buffer(#[allow(dead_code)] Handle);

    pub struct Filter {
        context: Handle,
    }

    impl Filter {
        pub fn new() -> Filter {
            let (mut platform, mut device) = (null_mut(), null_mut());
            unsafe {
                clGetPlatformIDs(1, &mut platform, null_mut());
                clGetDeviceIDs(platform, ALL_DEVICES, 1, &mut device, null_mut());
                Filter { context: clCreateContext(null(), 1, &device, null(), null_mut(),
                                                  null_mut()) }
            }
        }

        pub fn upload<Pixel>(&self, count: usize) -> Buffer {
            let size = count * std::mem::size_of::<Pixel>();
            Buffer(unsafe { clCreateBuffer(self.context, READ_WRITE, size, null_mut(), null_mut()) })
        }
    }

    impl Drop for Filter {
        fn drop(&mut self) {
            unsafe { clReleaseContext(self.context) };
        }
    }
}

fn main() {
    let filter = video::Filter::new();
    let history: Vec<_> = (0..10).map(|_| filter.upload::<f32>(1 << 18)).collect();
    drop(history); // does not release the buffers
}
