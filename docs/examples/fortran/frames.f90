! SPDX-License-Identifier: MIT
! Uploads ten frames to the device and never releases them: for docs/guides/languages/fortran.md.
! Declares only the functions of OpenCL that it calls.
module video
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    integer(c_int) function clGetPlatformIDs(room, platforms, count) &
        bind(C, name='clGetPlatformIDs')
      import
      integer(c_int), value :: room
      type(c_ptr) :: platforms
      type(c_ptr), value :: count
    end function
    integer(c_int) function clGetDeviceIDs(platform, kind, room, devices, count) &
        bind(C, name='clGetDeviceIDs')
      import
      type(c_ptr), value :: platform, count
      integer(c_int64_t), value :: kind
      integer(c_int), value :: room
      type(c_ptr) :: devices
    end function
    type(c_ptr) function clCreateContext(properties, count, devices, notify, data, error) &
        bind(C, name='clCreateContext')
      import
      type(c_ptr), value :: properties, notify, data, error
      integer(c_int), value :: count
      type(c_ptr) :: devices
    end function
    type(c_ptr) function clCreateBuffer(context, flags, size, host, error) &
        bind(C, name='clCreateBuffer')
      import
      type(c_ptr), value :: context, host, error
      integer(c_int64_t), value :: flags
      integer(c_size_t), value :: size
    end function
    integer(c_int) function clReleaseContext(context) &
        bind(C, name='clReleaseContext')
      import
      type(c_ptr), value :: context
    end function
  end interface

  type(c_ptr) :: context

contains

  subroutine open_device()
    type(c_ptr) :: platform, device
    integer :: error
    integer(c_int64_t), parameter :: all_devices = int(z'ffffffff', c_int64_t)

    error = clGetPlatformIDs(1, platform, c_null_ptr)
    error = clGetDeviceIDs(platform, all_devices, 1, device, c_null_ptr)
    context = clCreateContext(c_null_ptr, 1, device, c_null_ptr, c_null_ptr, c_null_ptr)
  end subroutine

  function upload(pixels) result(buffer)
    real, intent(in) :: pixels(:)
    type(c_ptr) :: buffer

    buffer = clCreateBuffer(context, 1_c_int64_t, 4_c_size_t * size(pixels), c_null_ptr, c_null_ptr)
  end function

end module

program frames
  use video
  implicit none
  real :: pixels(2**18)
  type(c_ptr), allocatable :: history(:)
  integer :: frame, error

  call open_device()
  allocate(history(10))
  do frame = 1, 10
    history(frame) = upload(pixels)
  end do
  deallocate(history)   ! does not release the buffers
  error = clReleaseContext(context)
end program
