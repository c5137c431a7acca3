<?php
// SPDX-License-Identifier: MIT
class Driver {
	private static $library;

	static function prepare(): void {
		self::$library = FFI::cdef("int cuInit(unsigned int flags);
			int cuDevicePrimaryCtxRetain(void **context, int device);
			int cuCtxSetCurrent(void *context);
			int cuMemAlloc_v2(size_t *block, size_t bytes);", "libcuda.so.1");
		$context = self::$library->new("void *");
		self::$library->cuInit(0);
		self::$library->cuDevicePrimaryCtxRetain(FFI::addr($context), 0);
		self::$library->cuCtxSetCurrent($context);
	}

	static function alloc(int $bytes): int {
		$block = self::$library->new("size_t");
		self::$library->cuMemAlloc_v2(FFI::addr($block), $bytes); // @alloc
		return $block->cdata;
	}
}
