# SPDX-License-Identifier: MIT
# A picture viewer that shows 40 pictures. It forgets what it keeps: a thumbnail of each picture, and
# an undo step for each third one. The picture itself and the filter's buffers are freed.
import time

import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)


class Kept(np.ndarray):
    """An array that stays on the device: the buffer and the array keep each other alive."""


def keep(side):
    array = np.zeros((side, side), np.float32).view(Kept)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    array.buffer = cl.Buffer(context, flags, hostbuf=array)
    return array


def allocate(side):
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, side * side * 4)
    cl.enqueue_fill_buffer(queue, buffer, np.float32(0), 0, side * side * 4)
    return buffer


def load_picture(number):
    return allocate(1024 + 64 * (number % 7))


def thumbnail_of(number):
    return keep(512 + 32 * (number % 3))


def save_undo_step():
    return keep(896)


def blur(side):
    rows, columns = allocate(side), allocate(side)
    queue.finish()
    rows.release()
    columns.release()


def show(number):
    picture = load_picture(number)
    time.sleep(0.02)
    blur(768)
    thumbnail_of(number)
    if number % 3 == 0:
        save_undo_step()
    time.sleep(0.02)
    picture.release()


for number in range(40):
    show(number)
