// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never frees them: for docs/guides/languages/csharp.md. The
// garbage collector frees the objects and not the memory behind them.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

class Filter
{
    [DllImport("libcuda.so.1")] static extern int cuInit(uint flags);
    [DllImport("libcuda.so.1")] static extern int cuDevicePrimaryCtxRetain(out IntPtr context, int device);
    [DllImport("libcuda.so.1")] static extern int cuCtxSetCurrent(IntPtr context);
    [DllImport("libcuda.so.1")] static extern int cuMemAlloc_v2(out ulong address, UIntPtr size);

    public Filter()
    {
        cuInit(0);
        cuDevicePrimaryCtxRetain(out IntPtr context, 0);
        cuCtxSetCurrent(context);
    }

    public ulong Upload(int count)
    {
        cuMemAlloc_v2(out ulong address, (UIntPtr)(4 * count));
        return address;
    }
}

class Frames
{
    static void Main()
    {
        var filter = new Filter();
        var history = new List<ulong>();

        for (int frame = 0; frame < 10; frame++)
            history.Add(filter.Upload(1 << 18));
        history.Clear(); // does not free the memory
    }
}
