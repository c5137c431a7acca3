// SPDX-License-Identifier: MIT
// Uploads ten frames to the device and never releases them: for docs/guides/languages/node.md. The
// garbage collector frees the objects and not the memory behind them.
"use strict";
const device = require("./filter.node");

class Filter {
	upload(count) {
		return device.createBuffer(4 * count);
	}
}

device.open();
const filter = new Filter();
let history = [];

for (let frame = 0; frame < 10; frame++)
	history.push(filter.upload(1 << 18));
history = []; // does not release the buffers
device.close();
