// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never releases them: for docs/guides/languages/java.md. The
// garbage collector frees the objects and not the memory behind them.

import java.util.ArrayList;
import java.util.List;

public class Frames {
    static class Filter {
        static {
            System.loadLibrary("filter"); // filter.c
        }

        static native void open();

        static native long createBuffer(long size);

        static native void close();

        long upload(int count) {
            return createBuffer(4L * count);
        }
    }

    public static void main(String[] arguments) {
        Filter.open();
        Filter filter = new Filter();
        List<Long> history = new ArrayList<>();

        for (int frame = 0; frame < 10; frame++)
            history.add(filter.upload(1 << 18));
        history.clear(); // does not release the buffers
        Filter.close();
    }
}
