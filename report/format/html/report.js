// SPDX-License-Identifier: MIT
//
// Shows the report from the data in the page. Names in the data come from the traced program and
// may be hostile: they must become text nodes, never markup.
"use strict";
(function () {

const data = JSON.parse(document.getElementById("data").textContent);
const processes = data.processes || (data.process ? [data] : []);
const ROWS = 200;        // of a table before the user clicks "more"
const STORIES = 100;
const NARROWEST = 2;     // pixels of the flame graph's narrowest box
const UNFIT = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f" + // control characters
	"\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069" + // change the direction of text
	"\\u2028\\u2029\\ufeff]", "g");
let chosen = -1;         // index of the process that is shown, -1 all of them
let lastId = 0;

// ---- elements and words ----

// An attribute "on" has listeners, "style" has properties. The page's policy forbids style attributes.
function el(name, attributes, ...children) {
	const ret = ["svg", "line", "path"].includes(name)
		? document.createElementNS("http://www.w3.org/2000/svg", name)
		: document.createElement(name);
	for (const [key, value] of Object.entries(attributes || {})) {
		if (key === "on")
			for (const [event, handler] of Object.entries(value))
				ret.addEventListener(event, handler);
		else if (key === "style")
			Object.assign(ret.style, value);
		else if (value !== null && value !== undefined && value !== false)
			ret.setAttribute(key, value === true ? "" : value);
	}
	ret.append(...children.flat().filter((child) => child !== null && child !== undefined));
	return ret;
}

// Returns TEXT so that it cannot break its line, change the direction of text, or fill the page.
function clean(text, most = 240) {
	let ret = String(text ?? "");
	if (ret.length > most)
		ret = ret.slice(0, most * 2 / 3) + "\u2026" + ret.slice(-most / 3) + " (" +
			number(ret.length) + " characters)";
	return ret.replace(UNFIT,
		(c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const number = new Intl.NumberFormat("en-US").format;

const counted = (count, what, many = what + "s") =>
	number(count) + " " + (count === 1 ? what : many);

// Rounds down, as the text report does.
function size(bytes) {
	const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
	let unit = -1;
	if (bytes < 1024)
		return bytes + (bytes === 1 ? " byte" : " bytes");
	for (; bytes >= 1024 && unit + 1 < units.length; unit++)
		bytes /= 1024;
	return (Math.floor(bytes * 10) / 10).toFixed(1) + " " + units[unit];
}

const signedSize = (bytes) => bytes < 0 ? "-" + size(-bytes) : size(bytes);

const exactSize = (bytes) =>
	bytes < 1024 ? size(bytes) : number(bytes) + " bytes (" + size(bytes) + ")";

function time(ns) {
	if (ns === 0)
		return "0 s";
	if (ns >= 60e9)
		return Math.floor(ns / 60e9) + " min " + Math.floor(ns / 1e9 % 60) + " s";
	return ns >= 1e9 ? (ns / 1e9).toFixed(2) + " s"
		: ns >= 1e6 ? (ns / 1e6).toFixed(1) + " ms" : Math.round(ns / 1e3) + " us";
}

const percent = (part, all) => all ? (100 * part / all).toFixed(1) + " %" : "0 %";
const kindWords = (kind) => clean((data.kinds || {})[kind] || kind);
// DEVICE may be several.
const deviceWords = (device) => [device].flat().map((one) => one < 0 ? "unknown" : one).join(", ");
const sum = (list, key) => list.reduce((total, item) => total + item[key], 0);

function placeOf(frame, whole) {
	const path = frame.file || frame.module || "";
	const name = clean(whole ? path : path.slice(path.lastIndexOf("/") + 1) || path);
	if (frame.file)
		return name + (frame.line ? ":" + frame.line : "");
	return name + (name ? "+" : "") + frame.offset;
}

const functionOf = (frame) =>
	frame ? clean(frame.short || frame.function || "???") : "an unknown place";

// A function with its whole name as a tooltip, if the page shows a shorter one.
const functionLabel = (frame) =>
	el("span", { class: "function", title: frame.short ? clean(frame.function, 2000) : null },
		functionOf(frame));

// Returns "PyTorch's autograd engine, " for a stack without a frame of the application, and "the
// backward pass of " for a frame of the thread that waits for the engine.
function threadOf(frames, frame) {
	if (frame.waiting)
		return "the backward pass of ";
	const named = frame.role && frames.find((other) => other.thread);
	return named ? clean(named.thread) + ", " : "";
}

// ---- stacks ----

const framesOf = (stack) => data.stacks[stack].map((at) => data.frames[at]);

// Returns the index of the frame to show. Leaks have it in their data, as SITE.
function siteOf(stack, site) {
	const frames = framesOf(stack);
	if (site === undefined)
		site = Math.max(frames.findIndex((frame) => !frame.role), 0);
	return frames.length ? Math.max(site, 0) : -1;
}

// Returns true for frames that do not help: of runtimes and frameworks, and _start.
function isBelow(frames, at, site) {
	if (at === site)
		return false;
	return Boolean(frames[at].role) || at < site ||
		(at === frames.length - 1 && frames[at].function === "_start");
}

// Returns the caller of the frame at SITE if it belongs to the application, else null.
function callerOf(frames, site) {
	const at = site + 1;
	return site >= 0 && at < frames.length && !isBelow(frames, at, site) ? frames[at] : null;
}

// "make mesh.c:12, from load main.c:40"
function place(frames, site) {
	const frame = frames[site], caller = callerOf(frames, site);
	if (!frame)
		return ["an unknown place"];
	return [threadOf(frames, frame), functionLabel(frame), " ",
		el("span", { class: "place" }, placeOf(frame)),
		caller ? el("span", { class: "caller" },
			"from " + functionOf(caller) + " " + placeOf(caller)) : null];
}

const frameLine = (frame, at, site) => el("li", { class: at === site ? "head" : "" },
	el("span", { class: "number" }, "#" + at + " "),
	functionLabel(frame), " ",
	el("span", { class: "place" }, placeOf(frame, true)),
	frame.role ? el("span", { class: "role" }, " \u00b7 " + clean(frame.role)) : null);

function stackList(stack, given) {
	const frames = framesOf(stack), site = siteOf(stack, given);
	const list = el("ol", { class: "stack" });
	const lines = (from, to) => frames.slice(from, to).map((frame, i) =>
		frameLine(frame, from + i, site));
	if (!frames.length)
		return el("p", { class: "soft" }, "No stack was recorded.");
	for (let at = 0, end; at < frames.length; at = end) {
		for (end = at; end < frames.length && isBelow(frames, end, site);)
			end++;
		list.append(...end > at ? [el("li", {}, el("details", {}, el("summary", {},
			counted(end - at, "frame") + " outside the application"),
			el("ol", { class: "lines" }, lines(at, end))))] : lines(at, ++end));
	}
	return list;
}

// The place of what has a stack, as a cell of a table.
const placeCell = (item) =>
	el("span", {}, place(framesOf(item.stack), siteOf(item.stack, item.site)));

function historyTable(history) {
	const words = { create: "created", retain: "retained", release: "released" };
	const partner = (event) => event.op === "create" ? ""
		: event.partner === null ? "nothing matches it"
		: (event.guess ? "probably " : "") + "pairs with " + (event.partner + 1);
	return el("div", { class: "history scroll" },
		el("p", { class: "soft" }, counted(history.references, "reference") + " left" +
			(history.left_out ? "; " + counted(history.left_out, "pair") +
			 " of retain and release not kept" : "") + "."),
		table(history.events, ["", (event) => String(history.events.indexOf(event) + 1), "num"],
			["What", (event) => words[event.op] || clean(event.op)],
			["Call", (event) => clean(event.api || "an unknown call"), "mono"],
			["Where", (event) => place(framesOf(event.stack), siteOf(event.stack))],
			["", partner, "soft"]));
}

// ---- what is shown ----

const shown = () => chosen < 0 ? processes : [processes[chosen]];

// Returns the items of KEY of all shown processes, each with its process.
const gathered = (key) => shown().flatMap((process) =>
	(process[key] || []).map((item) => ({ ...item, process })));

// Returns the call sites that accumulate. Their size is what they kept.
const accumulating = () =>
	gathered("suballocations").filter((site) => site.trend === "accumulating" &&
		!site.pattern).map((site) => ({ ...site, bytes: site.kept_bytes,
		blocks: site.kept_blocks })).sort((a, b) => b.bytes - a.bytes);

// Returns what users call a block of LIST: "block" or "tensor".
function unitOf(list) {
	const units = new Set(list.map((item) => item.unit || "block"));
	return units.size === 1 ? clean([...units][0]) : "block";
}

const total = (key) =>
	sum(shown().map((process) => ({ value: process.summary[key] || 0 })), "value");

const section = (id, title, lead, ...children) =>
	el("section", { id, "aria-labelledby": id + "-title" },
		el("h2", { id: id + "-title" }, title),
			lead ? el("p", { class: "lead" }, lead) : null,
		...children);

const fold = (id, title, note, ...children) =>
	el("details", { id, class: "fold" }, el("summary", {}, title,
		note ? el("span", { class: "soft" }, note) : null), ...children);

// Returns a table of LIST. A column has a title, a function from an item to the content of its cell,
// and the class of the cells.
const table = (list, ...columns) => el("table", {},
	el("thead", {}, el("tr", {}, columns.map(([title, , kind]) =>
		el("th", { scope: "col", class: kind === "num" ? "num" : "" }, title)))),
	el("tbody", {}, list.map((item) => el("tr", {}, columns.map(([, cell, kind]) =>
		el("td", { class: kind || "" }, cell(item)))))));

const wideTable = (list, ...columns) => el("div", { class: "scroll" }, table(list, ...columns));

// Returns the table of the first rows, and how many rows are left out.
const longTable = (list, ...columns) =>
	[wideTable(list.slice(0, ROWS), ...columns), notShown(list, ROWS)];

// Columns of a key.
const sizes = (title, key) =>
	[title, (item) => item[key] === null ? "not known" : size(item[key]), "num"];
const numbers = (title, key) => [title, (item) => number(item[key]), "num"];
const DEVICE = ["Device", (item) => deviceWords(item.device), "num"];

// Returns the columns for the figures of SUBJECT, as the rows of its figures name them.
const figureColumns = (subject) => data.figures[subject].map(({ key, title }) =>
	(key.endsWith("_bytes") ? sizes : numbers)(title, key));

// Returns what MAKE makes of LIST, or null for an empty list.
const ifAny = (list, make) => list.length ? make(list) : null;

// ---- verdict, figures, processes ----

// Returns the refused allocations because of which a process ended.
const endedBy = (list) => list.flatMap((process) => process.out_of_memory || [])
	.filter((entry) => entry.outcome === "final");

// Returns the gate's result if there is one. If the gate passes in spite of leaks, that is "warn".
function state() {
	const found = processes.some(({ summary, suballocations }) => summary.errors ||
		summary.leaked_blocks || summary.ended_with_context_blocks ||
		(suballocations || []).some((site) =>
		site.trend === "accumulating" && !site.pattern)) || endedBy(processes).length > 0;
	if (data.gate ? data.gate.status === 23 : found)
		return "bad";
	return found || !processes.length || data.incomplete ? "warn" : "good";
}

// Divides the first line of the text report: what happened, and below it the place.
function dressVerdict() {
	const heading = document.getElementById("verdict"), whole = heading.textContent;
	const [, first, rest] = /^(.*?)[,;] ((?:most|first:|held:|allocated|kept) .*)$/s.exec(whole) ||
		["", whole];
	const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
	document.body.className = state();
	document.title = "gpuleak: " + clean(first, 120);
	heading.textContent = clean(capital(first), 600);
	if (rest)
		heading.after(el("p", { class: "worst" }, clean(capital(rest), 800)));
}

function gate() {
	if (!data.gate)
		return null;
	const [word, kind] = data.gate.status === 0 ? ["Gate passed", "good"]
		: data.gate.status === 24 ? ["Nothing to judge", "warn"] : ["Gate failed", "bad"];
	return el("div", { class: "gate " + kind, id: "gate" }, el("strong", {}, word),
		el("ul", {}, data.gate.reasons.map((reason) => el("li", {}, clean(reason, 600)))));
}

// Returns the figures of the processes, in the order and with the titles of their rows.
function figures() {
	const many = shown().length > 1, late = total("late_blocks");
	const tile = ({ key, title, note, only_if_any: onlyIfAny, is_bad: isBad }) => {
		const count = total(key.replace(/bytes$/, "blocks"));
		const isPeak = many && key === "peak_bytes";
		const value = isPeak ? highest(series().totals) : total(key);
		if (onlyIfAny && !count)
			return null;
		return el("div", { class: isBad && count ? "bad" : "" }, el("dt", {}, title),
			el("dd", {}, key.endsWith("_bytes") ? size(value) : number(value)),
			el("dd", {}, key === "freed_blocks" && late
				? number(late) + " after the driver had shut down"
				: note ? note + (isPeak ? ", in all processes" : "")
				: counted(count, key === "accumulating_bytes"
					? unitOf(accumulating()) : "block")));
	};
	return el("dl", { class: "figures", id: "summary" }, data.figures.process.map(tile));
}

function who(process) {
	const command = process.process.command.map((word) => clean(word)).join(" ");
	const start = process.timeline && process.timeline.start_real_ns;
	const rows = [["Command", command || clean(process.process.exe || "unknown")],
		["Process", clean(process.name) + (process.process.host
			? " on " + clean(process.process.host) : "")],
		["Ended", clean(process.how)]];
	if (start)
		rows.push(["First GPU call", new Date(start / 1e6).toISOString().replace("T",
			" ").slice(0, 19) + " UTC"]);
	return el("dl", { class: "who" }, rows.flatMap(([key, value]) =>
		[el("dt", {}, key), el("dd", { class: key === "Command" ? "mono" : "" }, value)]));
}

const bar = (part) => el("span", { class: "bar", "aria-hidden": "true",
	style: { width: 100 * part + "%" } });

function processTable() {
	const worst = most([1, ...processes.map((process) => process.summary.leaked_bytes)]);
	const rows = processes.map(({ summary, ...process }, at) => ({ ...process, ...summary, at }))
		.sort((a, b) => b.leaked_bytes - a.leaked_bytes || b.errors - a.errors ||
			a.at - b.at);
	return section("processes", counted(processes.length, "process", "processes"),
		rows.length > ROWS ?
		"The " + ROWS + " that leak most; " + number(rows.length - ROWS) +
			" more are in the selection above." : null,
		wideTable(rows.slice(0, ROWS),
			["Process", ({ name, at }) => el("button", { class: "plain",
				on: { click: () => choose(at) } }, clean(name))],
			["Leaked", ({ leaked_bytes: bytes }) => el("span", {}, size(bytes),
				bytes ? bar(bytes / worst) : null), "num"],
			numbers("Blocks", "leaked_blocks"), numbers("Errors", "errors"),
			sizes("Peak", "peak_bytes"), ["Ended", ({ how }) => clean(how)]));
}

function processSelect() {
	const select = el("select", { id: "process",
		on: { change: () => choose(Number(select.value)) } },
		el("option", { value: -1 }, "all " + processes.length + " processes, summed"),
		processes.map((process, at) => el("option", { value: at },
			clean(process.name, 60) + ", " +
			size(process.summary.leaked_bytes) + " leaked")));
	select.value = chosen;
	return el("div", { class: "controls" }, el("label", { for: "process" }, "Show"), select);
}

function choose(at) {
	chosen = at;
	render();
	document.getElementById("process").focus();
}

// ---- timeline ----

// Returns the bytes that were live at the end, of the blocks for which WANTED returns true.
const leftOf = (process, wanted) =>
	sum(["leaks", "suppressed", "cached"].flatMap((key) => process[key] ||
		[]).filter(wanted), "bytes");

// Returns series of [seconds since the first process began, bytes]: the total of each process, and
// its memory by kind and device if the ledger has samples of it.
function series() {
	const timed = shown().filter((process) => process.timeline);
	const start = least(timed.map((process) => process.timeline.start_real_ns));
	const lastEnd = most(timed.map(({ timeline }) => timeline.start_real_ns + timeline.end_ns));
	const byKey = new Map(), totals = [], untold = [];
	for (const process of timed) {
		const timeline = process.timeline, end = timeline.end_ns;
		const shift = timeline.start_real_ns - start;
		// If other processes run on, a process counts as 0 after its end.
		const gone = end && timeline.start_real_ns + end < lastEnd ? [[end + 1, 0]] : [];
		const moved = (samples, isPart) => [...samples,
			...end ? [[end, leftOf(process, isPart)]] : [], ...gone].map(([ns, bytes]) =>
			[(ns + shift) / 1e9, bytes]).sort((a, b) => a[0] - b[0]);
		totals.push(moved([...timeline.live, [timeline.peak_ns, process.summary.peak_bytes]],
			() => true));
		if (!timeline.parts.length)
			untold.push(totals[totals.length - 1]);
		for (const { kind, device, live } of timeline.parts) {
			const isPart = (item) => item.kind === kind && item.device === device;
			entry(byKey, kind + " " + device, () => ({ kind, device, runs: [] })).runs.push(
				moved([...live, ...heldSamples(process, isPart)], isPart));
		}
	}
	return { parts: [...byKey.values()], totals, untold, timed,
		peak: timed.length === 1 ? [timed[0].timeline.peak_ns / 1e9,
			timed[0].summary.peak_bytes] : null };
}

// Returns samples [nanoseconds, bytes] of the holders for which IS_PART returns true, at each peak
// and refused request of PROCESS whose holders are all known. Suballocations have no kind.
const heldSamples = (process, isPart) =>
	[...peaksOf(process), ...process.out_of_memory || []]
		.filter(({ holders, other_holders: others }) => !others && holders.some(isPart) &&
			!holders.some((holder) => holder.unit))
		.map(({ seconds, holders }) => [seconds * 1e9, sum(holders.filter(isPart), "bytes")]);

// Returns the value of KEY in MAP, which MAKE makes if there is none.
function entry(map, key, make) {
	if (!map.has(key))
		map.set(key, make());
	return map.get(key);
}

// Takes any number of values; Math.max(...values) has a limit.
const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);

// Returns the maximum over time of the sum of RUNS.
function highest(runs) {
	const steps = runs.flatMap((run) => run.map(([t, bytes], i) =>
		[t, bytes - (i ? run[i - 1][1] : 0)])).sort((a, b) => a[0] - b[0]);
	let now = 0, ret = 0;
	steps.forEach(([t, bytes], i) => {
		now += bytes;
		if (i === steps.length - 1 || steps[i + 1][0] > t)
			ret = Math.max(ret, now);
	});
	return ret;
}

// Returns the value of RUN at time T: that of its last sample until then.
function valueAt(run, t) {
	let low = 0, high = run.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (run[middle][0] <= t)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? run[low - 1][1] : 0;
}

const sumAt = (runs, t) => runs.reduce((all, run) => all + valueAt(run, t), 0);

// Returns at most about COUNT of the times at which a run has samples.
function moments(runs, count) {
	const all = [...new Set(runs.flatMap((run) => run.map(([t]) => t)))].sort((a, b) => a - b);
	const step = Math.max(1, Math.ceil(all.length / count));
	return all.filter((t, at) => at % step === 0 || at === all.length - 1);
}

function niceStep(bytes) {
	let step = 1;
	while (bytes / step > 4)
		step *= 2;
	return step;
}

function timelineSection() {
	const known = series();
	const at = moments([...known.totals, ...known.parts.flatMap((part) => part.runs)], 600);
	if (at.length < 2)
		return null;
	const whole = { kind: null, device: null, runs: known.totals };
	let layers = known.parts.map((part) => ({ ...part, most: highest(part.runs) }))
		.filter((part) => part.most > 0).sort((a, b) => b.most - a.most);
	if (layers.length > 8) {
		const rest = layers.splice(7);
		layers.push({ kind: "all others", device: null,
			runs: rest.flatMap((part) => part.runs) });
	}
	if (!layers.length)
		layers = [whole];
	else if (highest(known.untold))
		layers.push({ kind: "processes without kinds", device: null, runs: known.untold });
	known.unsampled = layers[0] === whole ? [] : unsampled(layers, known.totals, at);
	return section("timeline", "Live memory over time", layers[0].kind === null
		? "All kinds" + (known.timed.length > 1 ? ", of all processes" : "") +
			". Sampled at allocations."
		: "By kind of memory and device. Sampled at allocations; the line is the sum.",
		chart(layers, known, at));
}

// Returns what is not in LAYERS at each moment: kinds are sampled less often than the total.
function unsampled(layers, totals, at) {
	const runs = layers.flatMap((layer) => layer.runs);
	return [at.map((t) => [t, Math.max(0, sumAt(totals, t) - sumAt(runs, t))])];
}

function layerName(layer) {
	if (layer.kind === null)
		return "all memory";
	return kindWords(layer.kind) + (layer.device === null || layer.device < 0 ? ""
		: ", device " + layer.device);
}

function chart(layers, known, at) {
	const W = 1000, H = 220, from = at[0], span = at[at.length - 1] - from || 1;
	const sums = at.map((t) => [t, 0, sumAt(known.totals, t)]);
	const stacked = layers.map(() => []);
	at.forEach((t) => layers.reduce((below, layer, i) => {
		const top = below + sumAt(layer.runs, t);
		stacked[i].push([t, below, top]);
		return top;
	}, 0));
	const high = most([known.peak ? known.peak[1] : 0, 1,
		...[...sums, ...stacked[layers.length - 1]].map(([, , bytes]) => bytes)]);
	const step = niceStep(high * 1.04);
	const top = Math.ceil(high * 1.04 / step) * step;
	const x = (t) => (t - from) / span * W, y = (bytes) => H - bytes / top * (H - 14);
	const edge = (points) => points.map(([t, , bytes], i) => (i ? "H" + x(t).toFixed(2) + "V"
		: "M" + x(t).toFixed(2) + " ") + y(bytes).toFixed(2)).join("") + "H" + W;
	const back = (points) => points.slice().reverse().map(([t, bytes]) =>
		"V" + y(bytes).toFixed(2) + "H" + x(t).toFixed(2)).join("");
	const picture = el("svg", { viewBox: "0 0 " + W + " " + H, preserveAspectRatio: "none",
		role: "img", "aria-label": "Live bytes over " + time(span * 1e9) + ", at most " +
			size(high) });
	for (let bytes = step; bytes <= top + step; bytes += step) {
		const height = bytes > top ? H : y(bytes);
		picture.append(el("line", { class: "grid", x1: 0, x2: W, y1: height, y2: height }));
	}
	const [line, mark] = ["cursor", "mark"].map((name) => el("line", { class: name, y1: 0,
		y2: H, "vector-effect": "non-scaling-stroke" }));
	picture.append(el("path", { class: "area whole", d: edge(sums) + "V" + H + "H0Z" }),
		...layers.map((layer, i) => el("path", { class: "area s" + i % 8,
			d: edge(stacked[i]) + back(stacked[i]) + "Z" })),
		el("path", { class: "edge", d: edge(sums) }), mark, line);
	return withReadout(picture, [line, mark], { layers, known, at, sums, x, y, H, step, top, from,
		span });
}

// Adds labels, which are HTML because the picture stretches, and a slider for users of a keyboard.
function withReadout(picture, [line, mark], c) {
	const trace = traced();
	const move = (which, t) => ["x1", "x2"].forEach((end) => which.setAttribute(end, c.x(t)));
	const labels = el("div", { class: "labels", "aria-hidden": "true" });
	const moment = el("th", { scope: "col", class: "num" }), last = c.at.length - 1;
	// It is as wide as the picture and has its time range, so its knob is below the cursor.
	const slider = el("input", { type: "range", class: "moment", min: 0, max: last,
		step: "any", "aria-label": "Moment of the timeline" });
	for (let bytes = c.step; bytes <= c.top; bytes += c.step)
		labels.append(el("span", { style: { bottom: 100 * (1 - c.y(bytes) / c.H) + "%" } },
			size(bytes)));
	const rows = c.layers.map((layer, i) => legendRow(layer.runs,
		el("span", { class: "key s" + i % 8 }), layerName(layer)));
	const each = c.known.timed.length > 1 ? processRows(c.known) : [];
	if (highest(c.known.unsampled))
		rows.push(legendRow(c.known.unsampled, el("span", { class: "key rest" }),
			"not sampled by kind"));
	if (rows.length > 1)
		rows.push(legendRow(c.known.totals, "total"));
	const show = (t) => {
		move(line, t);
		if (trace)
			moveCursor(trace, t);
		moment.textContent = "at " + time(t * 1e9);
		for (const { cell, runs } of [...rows, ...each])
			cell.textContent = size(sumAt(runs, t));
		slider.value = (t - c.from) / c.span * last;
		slider.setAttribute("aria-valuetext",
			time(t * 1e9) + ": " + size(sumAt(c.known.totals, t)));
	};
	const sums = c.sums.map(([, , bytes]) => bytes);
	slider.addEventListener("input", () =>
		show(c.from + Number(slider.value) / last * c.span));
	picture.addEventListener("pointermove", (event) => {
		const box = picture.getBoundingClientRect();
		const part = (event.clientX - box.left) / box.width;
		show(c.from + Math.min(1, Math.max(0, part)) * c.span);
	});
	show(c.at[sums.indexOf(most(sums))]);
	return el("div", {}, el("figure", { class: "chart" },
		el("div", { class: "plot" }, picture, labels), el("div", { class: "ends soft" },
		el("span", {}, time(c.from * 1e9)), el("span", {}, time((c.from + c.span) * 1e9))),
			slider, trace ? markButton(trace, (t) => move(mark, t)) : null),
		el("table", { class: "legend" }, el("thead", {}, el("tr", {},
			el("th", { scope: "col" }, "Live"), moment)),
		el("tbody", {}, rows.map(({ row }) => row)), ifAny(each, () =>
			el("tbody", { class: "processes" }, each.map(({ row }) => row)))));
}

// ---- the trace: the flame graph at the cursor, and between the cursor and a mark ----

// Numbers of moments of the trace: at the cursor, and where the user set the mark.
const cursor = { at: 0, mark: 0, moved: () => {} };
const traced = () => shown().length === 1 ? shown()[0].trace || null : null;
const seconds = (trace, at) => trace.ns[at] / 1e9;

// Moves the cursor to the last moment at or before T seconds.
function moveCursor(trace, t) {
	const at = trace.ns.reduce((last, ns, i) => ns / 1e9 <= t ? i : last, 0);
	const moves = at !== cursor.at;
	cursor.at = at;
	if (moves)
		cursor.moved();
}

const holdersOf = (trace, amounts) => amounts.map(([site, bytes, blocks]) =>
	({ ...trace.sites[site], bytes, blocks }));

// Returns what the lists have that lie after moment FROM, until moment TO.
function holdersBetween(trace, lists, from, to) {
	const sums = new Map();
	for (const [site, bytes, blocks] of lists.slice(from + 1, to + 1).flat()) {
		const whole = entry(sums, site, () => [site, 0, 0]);
		whole[1] += bytes;
		whole[2] += blocks;
	}
	return holdersOf(trace, [...sums.values()]);
}

// Returns the views of the flame graph that depend on the cursor.
function cursorViews() {
	const trace = data.flame ? null : traced();
	cursor.at = cursor.mark = 0;
	if (!trace)
		return [];
	const range = () => [cursor.mark, cursor.at].sort((a, b) => a - b);
	const words = () => range().map((at) => time(trace.ns[at])).join(" and ");
	const between = (label, key) => ({ label, trace, name: "all of it", of: "of all of it",
		part: (holder) => holder.unit + "s",
		get title() { return label + " between " + words(); },
		lead: "what was " + label.toLowerCase() + " between the mark and the cursor",
		get list() { return holdersBetween(trace, trace[key], ...range()); } });
	return [{ label: "At the cursor", trace, name: "all at this moment", of: "of this moment",
		part: (holder) => holder.unit + "s",
		get title() { return "Who held memory at " + time(trace.ns[cursor.at]); },
		lead: "what it held at the cursor of the timeline",
		get list() { return holdersOf(trace, trace.live[cursor.at]); } },
	between("Allocated", "allocated"), between("Freed", "freed")];
}

// Returns the button that sets the mark, and draws the mark by MOVE.
function markButton(trace, move) {
	move(seconds(trace, cursor.mark));
	const button = el("button", { type: "button", class: "plain", id: "mark", on: { click: () => {
		cursor.mark = cursor.at;
		button.textContent = "Mark at " + time(trace.ns[cursor.mark]);
		move(seconds(trace, cursor.mark));
		cursor.moved();
	} } }, "Set the mark here");
	return el("p", {}, button, " ", el("span", { class: "soft" },
		"The flame graph shows the moment of the cursor, and the time from the mark to it."));
}

// Returns a row of the legend, with the runs whose bytes its cell shows.
function legendRow(runs, ...words) {
	const cell = el("td", { class: "num" });
	return { runs, cell, row: el("tr", {}, el("td", {}, words), cell) };
}

// Returns a row of the legend for each process, ordered by peak, largest first.
const processRows = (known) => known.timed.map((process, i) => ({ process, run: known.totals[i] }))
	.sort((a, b) => b.process.summary.peak_bytes - a.process.summary.peak_bytes)
	.slice(0, ROWS).map(({ process, run }) => legendRow([run], clean(process.name), " ",
		el("span", { class: "soft" }, "peak " + size(process.summary.peak_bytes) +
			(process.timeline.parts.length ? "" : ", kinds not recorded"))));

// Memory that was not freed, by device and kind. Computed from the leaks, so it is exact.
function leftSection() {
	const groups = new Map();
	["leaks", "suppressed", "cached"].forEach((list, column) => {
		for (const { device, kind, ...leak } of gathered(list)) {
			const group = entry(groups, device + " " + kind, () =>
				({ kind, device, bytes: [0, 0, 0], blocks: 0, used: 0 }));
			group.bytes[column] += leak.bytes;
			group.used += leak.suballocated_bytes || 0;
			group.blocks += leak.blocks;
		}
	});
	const all = ({ bytes }) => bytes[0] + bytes[1] + bytes[2];
	const list = [...groups.values()].sort((a, b) => all(b) - all(a));
	const color = (i) => "s" + Math.min(i, 7);
	const columns = ["Leaked", "Suppressed", "Framework caches"].map((title, column) =>
		[title, ({ bytes }) => size(bytes[column]), "num"]).filter((title, column) =>
		!column || list.some(({ bytes }) => bytes[column]));
	if (list.some((group) => group.used))
		columns.push(sizes("In use inside", "used"), ["Cached, unused", (group) =>
			group.used ? size(all(group) - group.used) : "", "num"]);
	return ifAny(list, () => section("left", "Not freed, by device and kind", null,
		el("div", { class: "stacked", "aria-hidden": "true" }, list.map((group, i) =>
			el("i", { class: color(i), style: { flexGrow: all(group) } }))),
		wideTable(list.slice(0, 64),
			["Memory", (group) => el("span", {}, el("span",
				{ class: "key " + color(list.indexOf(group)) }), kindWords(group.kind))],
			DEVICE, numbers("Blocks", "blocks"), ...columns)));
}

// ---- flame graph ----

// Returns the views of the flame graph: what leaks or accumulates, and the holders of each memory
// at its peak. A page with "flame" in its data, the words for what a cell of a notebook left, has
// only the flame graph (python/gpuleak/_notebook.py).
function flameViews(leaks) {
	const grows = leaks.some((leak) => leak.unit);
	const views = leaks.length ? [{ label: "At exit", list: leaks,
		title: grows ? "Who allocated what leaked or accumulates"
			: "Who allocated what leaked",
		lead: "what " + (grows ? "is kept " : "leaks ") + "through it",
		name: grows ? "all that leaks or accumulates" : "all leaks", of: "of all leaks",
		part: (leak) => leak.unit + "s that accumulate", ...data.flame }] : [];
	const many = shown().length > 1;
	for (const [name, list] of peakHolders())
		views.push({ label: "Peak of " + name, list,
			title: "Who held " + name + (many ? " at the peak of each process"
				: " at its peak"),
			lead: "what it held then", name: "all of the peak", of: "of the peak",
			part: (holder) => holder.unit + "s" });
	return [...views, ...cursorViews()];
}

// Returns a map from the name of a memory to its holders at the peak.
function peakHolders() {
	const ret = new Map();
	for (const { name, holders, process } of peaks())
		for (const holder of holders)
			entry(ret, name, () => []).push({ ...holder, process });
	return ret;
}

// Returns the peaks of all memories of the shown processes.
const peaks = () =>
	shown().flatMap((process) => peaksOf(process).map((peak) => ({ ...peak, process })));

const peaksOf = ({ peak }) => peak ? [peak, ...peak.others] : [];

// Returns a tree of calls; its root is the outermost. Frames of one function and file are one node.
function callTree(view, whole) {
	const leaks = view.list, byBytes = leaks.some((leak) => leak.bytes);
	const made = (name, frame, below, parent) => ({ name, frame, below, parent, value: 0,
		blocks: 0, children: new Map(), depth: parent ? parent.depth + 1 : 0 });
	const root = { ...made(view.name, null, undefined, null), byBytes };
	for (const leak of leaks) {
		const frames = framesOf(leak.stack), site = siteOf(leak.stack, leak.site);
		let node = root;
		const count = () => {
			node.value += byBytes ? leak.bytes : leak.blocks;
			node.blocks += leak.blocks;
		};
		const add = (key, name, frame, below) => {
			const parent = node;
			node = entry(parent.children, key, () => made(name, frame, below, parent));
			count();
		};
		count();
		for (let at = frames.length - 1; at >= 0; at--) {
			const frame = frames[at], below = isBelow(frames, at, site);
			if (whole || !below)
				add(frame.function + "\n" +
					(frame.file || frame.module || frame.offset),
					functionOf(frame), frame, below);
		}
		if (leak.unused)
			add("\nunused", "unused in the " + clean(leak.cache), null, false);
		else if (!frames.length)
			add("", "no stack was recorded", null, false);
		add("\n" + leak.api + "\n" + leak.kind, leak.unit ? clean(view.part(leak))
			: clean(leak.api) + " (" + kindWords(leak.kind) + ")", null, true);
	}
	return root;
}

// Returns the children of NODE, widest first.
const childrenOf = (node) => [...node.children.values()].sort((a, b) => b.value - a.value);

// Returns the buttons that switch between the views.
function flameSwitch(flame, views) {
	const buttons = views.map((view) => el("button", { type: "button", class: "plain",
		"aria-pressed": String(view === flame.view),
		on: { click: () => {
			buttons.forEach((button, at) =>
				button.setAttribute("aria-pressed", String(views[at] === view)));
			show(flame, view);
		} } }, clean(view.label)));
	return views.length > 1 ? el("div", { class: "switch", role: "group",
		"aria-label": "Moment" }, buttons) : null;
}

// Shows VIEW without zoom.
function show(flame, view) {
	flame.view = view;
	flame.title.textContent = clean(view.title);
	flame.lead.textContent = "Each box is a function, as wide as " + view.lead +
		"; below it what it called, at the bottom the allocation.";
	flame.root = flame.zoom = callTree(view, flame.whole.checked);
	drawFlame(flame);
	tellMatches(flame);
}

const hidesFrames = (list) => list.some((leak) => framesOf(leak.stack).some((frame, at, frames) =>
	isBelow(frames, at, siteOf(leak.stack, leak.site))));

function flameSection(leaks) {
	const views = flameViews(leaks);
	if (!views.length)
		return null;
	const box = el("div", { class: "flame", role: "group",
		"aria-label": "Flame graph of bytes; Enter zooms, Escape goes back",
		on: { keydown: (event) => flameKey(flame, event) } });
	const told = el("p", { class: "told", "aria-live": "polite" });
	const search = el("input", { type: "search", id: "flame-search",
		placeholder: "function, file or module",
		on: { input: () => { drawFlame(flame); tellMatches(flame); } } });
	const whole = el("input", { type: "checkbox", id: "flame-whole",
		on: { change: () => show(flame, flame.view) } });
	const out = el("button", { class: "plain", type: "button", id: "flame-reset",
		disabled: true, on: { click: () => zoomTo(flame, flame.root) } }, "Zoom out");
	const part = section("flame", "", "\u00a0");
	const flame = { box, told, search, out, whole, title: part.querySelector("h2"),
		lead: part.querySelector("p"), view: views[0],
		// the buttons, and how the drawn boxes lie below each other
		byNode: new Map(), shown: new Map(), over: new Map() };
	part.append(...[flameSwitch(flame, views),
		el("div", { class: "controls" }, el("label", { class: "grow", for: "flame-search" },
			"Search", search), out, views.some((view) => hidesFrames(view.list))
			? el("label", {}, whole, "all frames") : null), box, told].filter(Boolean));
	part.start = () => startFlame(flame);
	cursor.moved = () => flame.view.trace && flame.box.isConnected && show(flame, flame.view);
	return part;
}

// Draws the graph when its box is in the page and has a width, and again when the width changes.
function startFlame(flame) {
	let width = flame.box.clientWidth;
	show(flame, flame.view);
	new ResizeObserver(() => {
		if (Math.abs(flame.box.clientWidth - width) < 2)
			return;
		width = flame.box.clientWidth;
		drawFlame(flame);
	}).observe(flame.box);
}

// Returns boxes that stand for NODES, children of PARENT that are too narrow to draw: as many as
// WIDTH pixels have room for, at most 20. A zoom into one shows its nodes.
function together(parent, nodes, width) {
	const each = Math.max(2, Math.ceil(nodes.length / Math.max(1, Math.min(20, width / 26))));
	const group = (at) => nodes.slice(at * each, (at + 1) * each);
	const boxOf = (list) => list.length === 1 ? list[0] : {
		name: number(list.length) + " narrower boxes", frame: null, below: true, parent,
		depth: parent.depth + 1, hidden: list.length, value: sum(list, "value"),
		blocks: sum(list, "blocks"), children: new Map(list.map((node) => [node, node])) };
	return Array.from({ length: Math.ceil(nodes.length / each) }, (_, at) => boxOf(group(at)));
}

const matches = (node, query) => (node.name + " " + (node.frame ? placeOf(node.frame, true)
	: "")).toLowerCase().includes(query);

function drawFlame(flame) {
	const query = flame.search.value.trim().toLowerCase();
	const width = flame.box.clientWidth || 800;
	const row = matchMedia("(max-width: 680px)").matches ? 27 : 21;
	const held = flame.box.contains(document.activeElement);
	let deepest = 0;
	for (const map of [flame.byNode, flame.shown, flame.over])
		map.clear();
	flame.hidden = 0;
	const put = (node, left, share, extra, depth = node.depth) => {
		const words = [extra, node.below ? "dim" : "", depth % 2 ? "odd" : "",
			query && matches(node, query) ? "hit" : ""];
		deepest = Math.max(deepest, depth);
		flame.byNode.set(node, el("button", { type: "button", tabindex: -1,
			class: words.join(" ").trim(),
			"aria-label": node.name + (node.frame ? ", " + placeOf(node.frame) : "") +
				", " + amount(flame, node) + ", " +
				percent(node.value, flame.root.value),
			style: { left: left * 100 + "%", width: share * 100 + "%",
				top: depth * row + "px" },
			on: { click: () => zoomTo(flame, node), focus: () => tell(flame, node),
				pointerenter: () => tell(flame, node) } },
			share * width < 26 ? "" : node.name));
	};
	for (let node = flame.zoom.parent; node; node = node.parent)
		put(node, 0, 1, "above");
	const draw = (node, left, share, depth) => {
		const part = (child) => flame.zoom.value ? child.value / flame.zoom.value : 0;
		const fits = (child) => part(child) * width >= NARROWEST && depth < 400;
		const all = childrenOf(node), wide = all.filter(fits), rest = all.slice(wide.length);
		const shown = wide.concat(together(node, rest, sum(rest, "value") /
			(flame.zoom.value || 1) * width));
		let at = left;
		put(node, left, share, "", depth);
		flame.shown.set(node, shown.filter(fits));
		for (const child of shown) {
			flame.over.set(child, node);
			if (fits(child) && child.hidden)
				put(child, at, part(child), "", depth + 1);
			else if (fits(child))
				draw(child, at, part(child), depth + 1);
			flame.hidden += child.hidden || !fits(child);
			at += part(child);
		}
	};
	draw(flame.zoom, 0, 1, flame.zoom.depth);
	flame.box.style.height = (deepest + 1) * row + "px";
	flame.box.replaceChildren(...flame.byNode.values());
	flame.out.disabled = flame.zoom === flame.root;
	const current = flame.byNode.get(flame.zoom);
	current.tabIndex = 0;
	if (held)
		current.focus({ preventScroll: true });
}

const amount = (flame, node) => (flame.root.byBytes ? size(node.value) + " in " : "") +
	counted(node.blocks, "block");

function tell(flame, node) {
	flame.told.replaceChildren(el("b", {}, node.name), " ",
		node.frame ? placeOf(node.frame, true) : "",
		el("br"), amount(flame, node) + ", " + percent(node.value, flame.root.value) +
			" " + flame.view.of +
		(flame.hidden ? "; " + counted(flame.hidden, "box", "boxes") +
		" too narrow to draw, zoom in to see them" : ""));
}

// Shows how many boxes match the search, and their bytes. Counts each byte once.
function tellMatches(flame) {
	const query = flame.search.value.trim().toLowerCase();
	let found = 0, nodes = 0;
	const look = (node, inside) => {
		const hit = node.parent && matches(node, query);
		if (hit)
			nodes++;
		if (hit && !inside)
			found += node.value;
		for (const child of node.children.values())
			look(child, inside || hit);
	};
	if (!query)
		return tell(flame, flame.zoom);
	look(flame.root, false);
	flame.told.replaceChildren(el("b", {}, counted(nodes, "match", "matches")), " with " +
		(flame.root.byBytes ? size(found) : counted(found, "block")) + ", " +
			percent(found, flame.root.value) + " " + flame.view.of);
}

function zoomTo(flame, node) {
	flame.zoom = node;
	drawFlame(flame);
	tell(flame, node);
	if (flame.out.disabled && document.activeElement === document.body)
		flame.byNode.get(node).focus({ preventScroll: true });
}

function flameKey(flame, event) {
	const from = [...flame.byNode].find(([, button]) => button === document.activeElement)?.[0];
	if (!from)
		return;
	const over = flame.over.get(from) || from.parent, siblings = flame.shown.get(over) || [from];
	const at = siblings.indexOf(from);
	const to = { ArrowUp: over, ArrowLeft: siblings[at - 1],
		ArrowRight: siblings[at + 1], ArrowDown: flame.shown.get(from)?.[0],
		Home: siblings[0], End: siblings[siblings.length - 1] }[event.key];
	if (event.key === "Escape" || event.key === "Backspace") {
		event.preventDefault();
		zoomTo(flame, flame.zoom.parent || flame.root);
	} else if (to && flame.byNode.has(to)) {
		event.preventDefault();
		flame.byNode.get(from).tabIndex = -1;
		flame.byNode.get(to).tabIndex = 0;
		flame.byNode.get(to).focus();
	}
}

// ---- tables of leaks ----

const some = (key) => (leaks) => leaks.some((leak) => leak[key]);
const shownAs = (make, key) => (leak) => make(leak[key]);

// A column sorts by its key. It has the class and the content of its cells; without "cell" it shows
// the value of its key, cleaned.
const COLUMNS = [
	{ key: "bytes", label: "Bytes", type: "size num", cell: (leak, button, most) =>
		[el("span", { title: exactSize(leak.bytes) }, size(leak.bytes)),
			bar(leak.bytes / most)] },
	{ key: "blocks", label: "Blocks", type: "num", isLabelled: true,
	  cell: shownAs(number, "blocks") },
	{ key: "where", label: "Allocated at", type: "where", cell: (leak, button) => button },
	{ key: "kind", label: "Kind", cell: shownAs(kindWords, "kind") },
	{ key: "device", label: "Device", type: "num", isLabelled: true,
	  cell: shownAs(deviceWords, "device") },
	{ key: "api", label: "Call", type: "mono" },
	{ key: "used", label: "In use inside", type: "num", only: some("used"),
	  cell: shownAs(size, "used") },
	{ key: "unused", label: "Cached, unused", type: "num", only: some("used"),
	  cell: shownAs(size, "unused") },
	{ key: "cache", label: "Cache", only: some("cache") },
	{ key: "mappedAt", label: "Mapped, never unmapped, at", type: "where", only: some("mapped"),
	  cell: (leak) => leak.mappedAt },
	{ key: "endedAt", label: "Context ended at", type: "where", only: some("ended"),
	  cell: (leak) => leak.endedAt },
	{ key: "pattern", label: "Suppressed by", type: "mono", only: some("pattern") },
	{ key: "who", label: "Process", only: () => shown().length > 1 },
];

// The columns for suballocations. Kind and call are left out: they are the same in a pool.
const PART_COLUMNS = COLUMNS.filter(({ key }) =>
	!["kind", "api", "used", "unused", "pattern"].includes(key)).concat(
	{ key: "trend_text", label: "While the program ran", only: some("trend_text") },
	{ key: "keptBy", label: "Kept by", only: some("keepers") });

function whereOf(event) {
	const frame = framesOf(event.stack)[siteOf(event.stack, event.site)];
	return functionOf(frame) + " " + (frame ? placeOf(frame) : "");
}

// Adds to each leak the values that the table shows and sorts by.
const prepare = (leaks) => leaks.map((leak) => ({ ...leak, where: whereOf(leak),
	mappedAt: leak.mapped ? whereOf(leak.mapped) : "",
	endedAt: leak.ended ? whereOf(leak.ended) : "",
	keptBy: leak.keepers ? clean(leak.keepers[0].text, 160) : "",
	used: leak.suballocated_bytes || 0,
	unused: leak.bytes - (leak.suballocated_bytes || 0),
	who: clean(leak.process.name, 60) }));

const ascending = (list) => [...new Set(list)].sort((a, b) => a - b);

// Returns "ranks 0-2, 5" for the numbers of LEAK's parts, or the process if there is only one.
function ranksOf({ who, names, ranks }) {
	const runs = [];
	if (names.size === 1)
		return who;
	for (const rank of ascending(ranks))
		if (runs.length && runs[0][1] === rank - 1)
			runs[0][1] = rank;
		else
			runs.unshift([rank, rank]);
	return "rank" + (new Set(ranks).size > 1 ? "s " : " ") + clean(runs.reverse().map(
		([first, last]) => first === last ? first : first + "-" + last).join(", "), 60);
}

const SUMS = ["bytes", "blocks", "used", "unused"];

// Adds LEAK to WHOLE, a row or a part of it.
function add(whole, leak) {
	for (const key of SUMS)
		whole[key] += leak[key];
	whole.names.add(leak.who);
	whole.ranks.push(leak.process.process.rank);
	return whole;
}

const empty = (leak) => ({ ...leak, bytes: 0, blocks: 0, used: 0, unused: 0, names: new Set(),
	ranks: [] });

// Makes one row of the stacks that end in one line, in all ranks of a job. A row has a part for
// each stack.
function merged(leaks) {
	const rows = new Map(), isJob = data.ranks && shown().length > 1;
	for (const leak of leaks) {
		const one = isJob && Number.isInteger(leak.process.process.rank);
		const key = [leak.where, leak.kind, one || leak.device, one || leak.who, leak.cache,
			leak.pattern, leak.endedAt, leak.mappedAt, leak.history ||
				!framesOf(leak.stack).length ? leak.fingerprint : ""];
		const row = entry(rows, JSON.stringify(key), () => ({ ...empty(leak), devices: [],
			byStack: new Map() }));
		const isAlone = !one || leak.history || leak.keepers || leak.released;
		add(row, leak).devices.push(leak.device);
		add(entry(row.byStack, isAlone ? leak : leak.stack, () => empty(leak)), leak);
	}
	return [...rows.values()].map((row) => ({ ...row, who: ranksOf(row),
		device: row.devices.every((device) => device === row.device) ? row.device
			: ascending(row.devices), parts: [...row.byStack.values()] }));
}

// Returns for each stack and each of WORDS whether a frame of the stack has the word.
function stacksWith(words) {
	const hits = words.map((word) => data.frames.map((frame) =>
		[frame.function, frame.file, frame.module,
			frame.line].join(" ").toLowerCase().includes(word)));
	return data.stacks.map((stack) => words.map((word, i) =>
		stack.some((frame) => hits[i][frame])));
}

function filtered(table) {
	const words = table.query.toLowerCase().split(/\s+/).filter(Boolean);
	if (!words.length && !table.kind && table.device === "")
		return table.leaks;
	const inStack = words.length ? stacksWith(words) : null;
	return merged(table.list.filter((leak) => (!table.kind || leak.kind === table.kind) &&
		(table.device === "" || leak.device === Number(table.device)) &&
		words.every((word, i) => inStack[leak.stack][i] ||
			[leak.api, leak.kind, leak.cache, leak.pattern,
				leak.who].join(" ").toLowerCase().includes(word))));
}

function sorted(table, leaks) {
	const { key, down } = table.sort, sign = down ? -1 : 1;
	return leaks.slice().sort((a, b) => {
		const x = a[key] ?? "", y = b[key] ?? "";
		const order = typeof x === "number" && typeof y === "number" ? x - y : x < y ? -1
			: Number(x > y);
		return sign * order || b.bytes - a.bytes;
	});
}

function leakTable(id, list, withFilter, columns = COLUMNS) {
	const prepared = prepare(list), leaks = merged(prepared);
	list.rows = leaks.length;
	const table = { id, leaks, list: prepared, query: "", kind: "", device: "",
		sort: { key: "bytes", down: true }, rows: ROWS,
		unit: unitOf(leaks), columns: columns.filter(({ only }) => !only || only(leaks)),
		most: most([1, ...leaks.map((leak) => leak.bytes)]),
		body: el("tbody"), left: el("p", { class: "left", role: "status" }) };
	const sortBy = (key, isNumber) => {
		table.sort = { key, down: table.sort.key === key ? !table.sort.down : isNumber };
		fill(table);
	};
	table.heads = table.columns.map(({ key, label, type = "" }) => {
		const isNumber = type.endsWith("num");
		return el("th", { scope: "col", class: isNumber ? "num" : "" },
			el("button", { type: "button", on: { click: () => sortBy(key, isNumber) } },
				label));
	});
	fill(table);
	return [withFilter ? filters(table) : null,
		el("table", { class: "leaks", id }, el("thead", {}, el("tr", {}, table.heads)),
			table.body), table.left];
}

function options(table, key, words) {
	const values = [...new Set(table.list.map((leak) => leak[key]))].sort();
	const select = el("select", { id: table.id + "-" + key, on: { change: () => {
		table[key] = select.value;
		fill(table);
	} } }, el("option", { value: "" }, "any " + key),
		values.map((value) => el("option", { value }, words(value))));
	return values.length > 1 ? [el("label", { class: "unseen", for: select.id }, key), select]
		: null;
}

function filters(table) {
	const search = el("input", { type: "search", id: table.id + "-search",
		placeholder: "any frame, call or kind", on: { input: () => {
			table.query = search.value;
			table.rows = ROWS;
			fill(table);
		} } });
	return el("div", { class: "controls" },
		el("label", { class: "grow", for: search.id }, "Filter", search),
		options(table, "kind", kindWords), options(table, "device", (device) =>
			device < 0 ? "device unknown" : "device " + device));
}

function fill(table) {
	const found = sorted(table, filtered(table)), rest = found.slice(table.rows);
	const bytes = sum(found, "bytes"), whole = sum(table.leaks, "bytes");
	table.columns.forEach(({ key }, at) => {
		table.heads[at].ariaSort = key !== table.sort.key ? null
			: table.sort.down ? "descending" : "ascending";
	});
	table.body.replaceChildren(...found.slice(0, table.rows).map((leak) =>
		leakRow(table, leak)));
	table.left.replaceChildren(counted(found.length, "site") + ", " +
		counted(sum(found, "blocks"), table.unit) + ", " +
		exactSize(bytes) + (found.length < table.leaks.length || bytes < whole
			? " of " + size(whole) : ""));
	if (!rest.length)
		return;
	table.left.append(el("span", {}, "\u2013 " + number(rest.length) + " of them not shown: " +
		size(sum(rest, "bytes"))),
		el("button", { type: "button", class: "plain", on: { click: () => {
			const first = table.rows;
			table.rows += 5 * ROWS;
			fill(table);
			table.body.querySelectorAll("button.site")[first]?.focus();
		} } }, "Show " + number(Math.min(rest.length, 5 * ROWS)) + " more"));
}

function leakRow(table, leak) {
	const id = "row" + ++lastId;
	const button = el("button", { type: "button", class: "site", "aria-expanded": "false",
		"aria-controls": id }, placeCell(leak));
	const row = el("tr", { class: "leak", on: { click: (event) => {
		if (!getSelection().toString() || event.target.closest("button"))
			unfold(table, leak, row, button, id);
	} } }, table.columns.map(({ key, label, type, cell, isLabelled }) =>
		el("td", { class: type, "data-label": isLabelled ? label.toLowerCase() : null },
			cell ? cell(leak, button, table.most) : clean(leak[key]))));
	return row;
}

const pastCall = (words, event) =>
	event ? [el("p", { class: "soft" }, words + clean(event.api || "an unknown call") +
		" at:"), stackList(event.stack)] : null;

function unfold(table, leak, row, button, id) {
	const open = button.getAttribute("aria-expanded") === "true";
	button.setAttribute("aria-expanded", String(!open));
	row.classList.toggle("open", !open);
	if (open) {
		row.nextElementSibling.remove();
		return;
	}
	row.after(el("tr", { class: "more", id }, el("td", { colspan: table.columns.length },
		...leak.parts.flatMap(partStory))));
}

const partStory = (leak) => [
	el("p", { class: "soft" }, exactSize(leak.bytes) + " in " +
		counted(leak.blocks, clean(leak.unit || "block")) + (leak.mapped
		? ", released, but never unmapped; allocated by " : ", allocated by ") +
		clean(leak.api) + (leak.names.size > 1 ? " in " + ranksOf(leak) : "") + " at:"),
	stackList(leak.stack, leak.site),
	leak.partial ? el("p", { class: "soft" },
		"The stack ends in the interpreter: other functions may have the same one.") : null,
	pastCall("Context ended by ", leak.ended), pastCall("Mapped by ", leak.mapped),
	pastCall("Released by ", leak.released),
	keeperList(leak), leak.history ? historyTable(leak.history) : null];

function keeperText(keeper) {
	const text = clean(keeper.text, 600);
	return keeper.blocks ? number(keeper.blocks) + ": " + text : "(" + text + ")";
}

// Lists what keeps the blocks of LEAK, as the program's interpreter found it.
const keeperList = (leak) => leak.keepers ? [el("h4", {}, "Kept after " +
	leak.keepers_seconds.toFixed(2) + " s by:"), el("ul", { class: "keepers" },
	leak.keepers.map((keeper) => el("li", {}, keeperText(keeper))))] : null;

// ---- error stories ----

function errorGroups() {
	const groups = new Map();
	for (const error of gathered("errors")) {
		const key = JSON.stringify([error.type, error.api, error.stack, error.result,
			error.asked_bytes,
			[error.allocated, error.freed, error.earlier?.allocated,
				error.earlier?.freed].map((event) => event?.stack),
			error.process.process.pid]);
		entry(groups, key, () => ({ ...error, count: 0 })).count += error.count || 1;
	}
	return [...groups.values()];
}

const act = (title, stack, wrong) =>
	el("div", { class: wrong ? "wrong" : "" }, el("h4", {}, title), stackList(stack));

function story(error) {
	const words = clean(error.words, 600), mapped = error.mapped_bytes;
	// Of two frees that both hit a live block the first one may be the wrong one.
	const acts = [act((error.earlier ? "The second free: "
		: error.access ? "Found by " : "The wrong call: ") +
		clean(error.api), error.stack, !error.earlier)];
	const event = (what, title) => what ? acts.push(act(title + " by " +
		clean(what.api || "an unknown call"), what.stack)) : 0;
	event(error.allocated, mapped ? "It was mapped" : "It was allocated" +
		(error.allocated?.bytes ? ", " + size(error.allocated.bytes) + "," : ""));
	if (error.earlier) {
		event(error.freed, "It was freed (possible cause)");
		event(error.earlier.allocated,
			"An earlier block with this address was allocated");
		event(error.earlier.freed, "The earlier block was freed");
	} else {
		event(error.freed, error.access ? "It was freed" : "It was first freed");
	}
	for (const suspect of error.suspects || [])
		acts.push(act("May have written it: " + clean((suspect.kernel ? suspect.kernel +
			" by " : "") + suspect.api) + (suspect.count > 1 ? ", " +
			number(suspect.count) + " times" : "") + (suspect.given_address
			? ", given an address of the block" : ""), suspect.stack));
	return el("article", { class: "story" }, el("h3", {},
		words.charAt(0).toUpperCase() + words.slice(1) +
		(mapped ? "" : " of " + clean(error.address)), error.count > 1
			? el("span", { class: "soft" }, " \u00b7 " + number(error.count) +
		" times with these stacks") : null), el("p", {}, clean(error.told, 600) + "."),
		error.earlier ? el("p", { class: "soft" },
			"An earlier block had the same address. If the possible cause meant to " +
			"free the earlier block, it freed that block twice and this block by " +
			"mistake. Otherwise the call above is the double free.") : null,
		shown().length > 1 ? el("p", { class: "soft" }, "In " + clean(error.process.name))
			: null,
		el("div", { class: "acts" }, acts));
}

// Returns the paragraph after the first COUNT rows of LIST, or null if these are all.
const notShown = (list, count) =>
	list.length > count ? el("p", { class: "left" }, number(list.length - count) +
		" more are not shown; --format json lists all.") : null;

function errorSection() {
	const groups = errorGroups(), count = total("errors");
	if (!count)
		return null;
	const recorded = sum(groups, "count");
	return section("errors", counted(count, groups.some((one) => one.access) ? "error" : "invalid free"), recorded < count ?
		number(count - recorded) + " are not listed, because the ledger had no room for them." : null,
		groups.slice(0, STORIES).map(story),
			notShown(groups, STORIES));
}

// ---- the rest ----

// Returns what each shown process has in LIST, as GET returns it.
const ofEach = (get) => shown().flatMap((process) => get(process) || []);

function heldSection() {
	const acts = (block) => [["Released by ", block.released], ["Allocated by ", block.allocated],
		...block.held_by.map((by) => ["The " + clean(by.what) + " that holds it: ", by.allocated])]
		.map(([title, event]) => event ? act(title + clean(event.api), event.stack) : null);
	return ifAny(ofEach((process) => process.deferred?.held), (held) => section("held",
		"Released, but still held",
		"The last reference was released, but the memory is not freed: " +
		counted(held.length, "block") + ", " + exactSize(sum(held, "bytes")) + ".",
		held.slice(0, STORIES).map((block) => el("article", { class: "story" },
			el("h3", {}, size(block.bytes) + " of " + kindWords(block.kind)),
			el("p", {}, block.held_by.length ? "Held by " +
				block.held_by.map((by) => clean(by.what)).join(", ") + "." : ""),
			el("div", { class: "acts" }, acts(block)))),
		notShown(held, STORIES)));
}

function poolSection() {
	const limits = shown().map(({ pool }) => [
		pool?.refused ? counted(pool.refused, "allocation") +
			" refused beyond the limit of " + size(pool.limit_bytes) : "",
		pool?.injected_failures ? counted(pool.injected_failures, "allocation") +
			" made to fail by GPULEAK_FAIL_AT" : ""].filter(Boolean).join("; "))
		.filter(Boolean);
	const pools = ifAny(ofEach((process) => process.pool?.pools), (list) => wideTable(list,
		["Memory", (pool) => clean(pool.api) + ", " + kindWords(pool.kind)], DEVICE,
		["Mode", (pool) => clean(pool.mode)], ...figureColumns("pool"),
		["", (pool) => clean(pool.turned_off || "")]));
	return pools || limits.length ? section("pools", "Pool", null, pools,
		limits.map((words) => el("p", { class: "lead" }, words + "."))) : null;
}

function deviceSection() {
	const devices = gathered("devices"), costs = gathered("driver_costs");
	if (!devices.length && !costs.length)
		return null;
	return fold("devices", "What the devices held", "the driver's own memory included",
		ifAny(devices, () => wideTable(devices,
			["Device", ({ device, name }) => deviceWords(device) + " " + clean(name || "")],
			sizes("Tracked", "tracked_bytes"), sizes("Held in all", "held_bytes"),
			sizes("The driver's own", "driver_bytes"), sizes("Most held", "peak_held_bytes"))),
		// what calls made the driver itself take, by call site
		ifAny(costs, () => longTable(costs, ["The driver took", ({ cause }) => clean(cause)],
			DEVICE, ["Bytes", ({ bytes }) => bytes === null ? "unknown" : signedSize(bytes),
				"num"], numbers("Calls", "calls"), numbers("Measured", "measured_calls"),
			numbers("Ended since", "ended"), ["Called at", (cost) => el("span", {},
				clean(cost.api) + ", ",
				place(framesOf(cost.stack), siteOf(cost.stack)))])));
}

const noteSection = () => ifAny([...ofEach((process) => process.notes.map((note) =>
	shown().length > 1 ? process.name + ": " + note : note)),
	...(data.processes ? data.notes : []),
	...ofEach((process) => process.coverage_text.trim())], (notes) =>
	section("notes", "Notes", null, el("ul", { class: "notes" },
		notes.slice(0, ROWS).map((note) => el("li", {}, clean(note, 1200))),
		notes.length > ROWS ? el("li", {}, number(notes.length - ROWS) + " more") : null)));

function listSection(id, title, lead) {
	const list = gathered(id), patterns = id === "suppressed" && data.suppressions || [];
	return list.length || patterns.length ? fold(id, title,
		counted(sum(list, "blocks"), "block") + ", " + size(sum(list, "bytes")),
		lead ? el("p", { class: "lead" }, lead) : null,
		ifAny(patterns, () => wideTable(patterns,
			["Pattern", (use) => el("code", {}, clean(use.pattern))],
			numbers("Blocks", "blocks"), numbers("Bytes", "bytes"))),
		ifAny(list, () => leakTable(id + "-table", list, false))) : null;
}

// Shows the memory that ended with its context, without suppressed blocks and caches.
function contextEndSection() {
	const list = gathered("ended_with_context").filter((end) => !end.pattern && !end.cache);
	return ifAny(list, () => section("context-ends", "Ended with their context",
		"Never freed: live when the program destroyed or reset their context. By call " +
		"stack. A row unfolds.", leakTable("context-ends-table", list, true)));
}

const accumulatingSection = (list) => ifAny(list, () => section("accumulating", "Accumulating",
	"The program keeps what these lines allocate, more and more of it, until it ends or " +
	"drops all. By call stack. A row unfolds.",
	leakTable("accumulating-table", list, true, PART_COLUMNS)));

// Shows the suballocations that are live inside the blocks of caches.
const insideSection = () => ifAny(gathered("suballocations").filter((site) => site.blocks)
	.sort((a, b) => b.bytes - a.bytes), (list) => fold("inside", "Inside framework caches",
	counted(sum(list, "blocks"), unitOf(list)) + ", " + size(sum(list, "bytes")),
	el("p", { class: "lead" }, "Live at the end. These bytes are part of the blocks above."),
	ofEach((process) => process.outside_text).map((text) =>
		el("p", { class: "lead" }, clean(text, 600))),
	leakTable("inside-table", list, false, PART_COLUMNS)));

const holderTable = ({ holders }) =>
	ifAny(holders, () => wideTable(holders.slice(0, ROWS),
		["Held", ({ bytes }) => size(bytes), "num first"],
		["", ({ blocks }) => counted(blocks, "block"), "num"],
		["Kind", (holder) => kindWords(holder.kind)],
		["Cache", ({ cache, unused }) =>
			cache ? clean(cache) + (unused ? ", unused" : "") : ""],
		["Allocated at", placeCell, "where"]));

// Shows the call sites that held each memory at its peak.
const peakSection = () => ifAny(peaks(), (list) => fold("peak", "Who held the memory at the peak",
	list.length === 1 ? size(list[0].bytes) + " of " + clean(list[0].name)
		: counted(list.length, "peak"),
	list.slice(0, ROWS).map((peak) => el("article", {}, el("h3", {},
		size(peak.bytes) + " of " + clean(peak.name) + (shown().length > 1
		? " in " + clean(peak.process.name) : "")),
	el("p", {}, "After " + time(peak.seconds * 1e9) + (peak.error_bytes
		? ", exact to " + size(peak.error_bytes) : "") + "."),
	holderTable(peak)))));

// Shows how much of its segments each cache of LIST uses, and which call sites keep the rest.
const unusedTables = (list) => [wideTable(list,
	["Cache", ({ cache, pool }) => clean(cache) + (pool ? ", private pools of CUDA graphs" : "")],
	DEVICE, ...figureColumns("fragmentation")),
...ifAny(list.flatMap((cache) => cache.pinned_by).slice(0, ROWS), (pins) => [wideTable(pins,
	sizes("Keeps unused", "unused_bytes"), sizes("Of it alone", "own_unused_bytes"),
	numbers("Segments", "segments"), sizes("In use", "bytes"),
	["Allocated at", placeCell, "where"])]) || []];

const fragmentationSection = () => ifAny(gathered("fragmentation"), (list) => fold(
	"fragmentation", "Fragmentation", size(sum(list, "pinned_free_bytes")) +
	" unused beside tensors", unusedTables(list)));

function refusal(entry) {
	const facts = [["wanted", entry.requested_bytes], ["held by this process",
		entry.tracked_bytes], ["free", entry.free_bytes], ["on the device", entry.total_bytes],
		["driver itself", entry.driver_bytes],
		["other processes", entry.other_processes_bytes]]
		.filter(([, bytes]) => typeof bytes === "number")
		.map(([what, bytes]) => size(bytes) + " " + what);
	return el("article", { class: "story" }, el("h3", {}, clean(entry.outcome) + ": " +
		clean(entry.told, 800)), el("p", {}, facts.join(", ") +
		(entry.times > 1 ? ", refused " + number(entry.times) + " times in a row" : "")),
		holderTable(entry), ifAny(entry.fragmentation || [], unusedTables),
		ifAny(entry.remedies || [], (list) => el("ul", { class: "notes" },
			list.map(({ told }) => el("li", {}, "Next: " + clean(told, 600))))),
		el("details", {}, el("summary", {}, "Where it was wanted"),
			stackList(entry.stack, entry.site)));
}

// Shows the requests that ended a process. The other refused requests are folded.
function outOfMemorySection() {
	const final = endedBy(shown()).length;
	return ifAny(gathered("out_of_memory"), (list) => (final ? section : fold)("out-of-memory",
		"Out of memory", final ? "Who held the memory when an allocation was refused."
			: counted(list.length, "request"), list.slice(0, ROWS).reverse().map(refusal)));
}

// Shows the call sites whose memory grows from step to step.
const growthSection = () => ifAny(ofEach((process) => process.growth?.suspects), (list) =>
	section("growth", "Growing", "From step to step.", longTable(list,
		sizes("A step", "bytes_per_step"), numbers("Blocks a step", "blocks_per_step"),
		sizes("Now", "bytes"), numbers("Blocks", "blocks"),
		["Kind", ({ kind }) => kindWords(kind)], DEVICE, ["Allocated at", placeCell])));

const refusedSection = () => ifAny(gathered("refused_frees"), (list) => fold("refused",
	"Refused frees", counted(sum(list, "count"), "free"), longTable(list,
		numbers("Times", "count"), ["Call", ({ api }) => clean(api), "mono"],
		["Result", (free) => clean(free.result || free.result_number), "mono"],
		["Freed at", placeCell], ["Allocated at", ({ allocated }) =>
			allocated?.stack === undefined ? "unknown" : placeCell(allocated)],
		["The block", (free) => free.after_shutdown ? "freed too late: no leak"
			: free.freed_later || free.broken_context ? "counts as freed"
			: "never freed"])));

const parkedSection = () => ifAny(gathered("parked"), (list) => fold("parked",
	"Memory pools of the driver", "what they do not use is no leak", longTable(list,
		["Pool", ({ pool }) => clean(pool)], DEVICE, ["When", ({ when }) => clean(when)],
		...figureColumns("parked"))));

const rangeSection = () => ifAny(gathered("ranges"), (list) => fold("ranges",
	"Ranges of the program", "NVTX; each without the ranges inside it", longTable(list,
		["Range", ({ name, outside }) => name === null
			? outside ? "(outside all ranges)" : "(further ranges)" : clean(name)],
		["Domain", ({ domain }) => clean(domain || "")], ...figureColumns("ranges"))));

const objectSection = () =>
	ifAny(gathered("objects"), (objects) => fold("objects", "Objects that were left",
		"no memory of their own", longTable(objects, ["Object", ({ kind }) =>
			kindWords((data.kinds || {})["object/" + kind] ? "object/" + kind : kind)],
			numbers("Count", "count"), numbers("Created", "created"),
			numbers("References", "references"), ["Made at", placeCell])));

const stepSection = () => ifAny(gathered("steps"), (steps) => fold("steps", "Named steps",
	"what each allocated, freed and left", longTable(steps, ["Step", ({ name, open }) =>
		(name === null ? "all further names" : clean(name)) + (open ? " (not ended)" : "")],
		numbers("Times", "count"), sizes("Allocated", "allocated_bytes"),
		sizes("Freed", "freed_bytes"), ["Left", (step) => signedSize(step.left_bytes),
			"num"], sizes("Largest peak", "peak_bytes"))));

// Shows the memory that a process freed while another process had it open.
function sharedSection() {
	const at = (title, key) => [title, ({ [key]: event }) => event ? placeCell(event) : "unknown"];
	return ifAny(ofEach((process) => process.ipc?.freed_while_open)
		.sort((a, b) => b.bytes - a.bytes), (groups) => section("shared",
		"Freed, but still open in another process", "CUDA does not define what happens then.",
		longTable(groups, sizes("Size", "bytes"), numbers("Blocks", "blocks"),
			at("Allocated at", "allocated"), at("Freed at", "freed"),
			["Open in", (group) => "pid " + group.importer.pid], at("Opened at", "opened"))));
}

function navigation(parts, leaks) {
	const names = { timeline: "Timeline", flame: "Flame graph", left: "Not freed",
		pools: "Pool", held: "Still held", leaks: "Leaks", errors: "Errors",
		suppressed: "Suppressed", cached: "Caches", inside: "Inside caches",
		accumulating: "Accumulating", devices: "Devices", notes: "Notes",
		processes: "Processes", objects: "Objects", steps: "Named steps",
		"out-of-memory": "Out of memory", shared: "Shared memory", peak: "Peak",
		"context-ends": "Ended with context", growth: "Growing", refused: "Refused frees",
		parked: "Driver's pools", ranges: "Ranges", fragmentation: "Fragmentation" };
	const counts = { leaks: leaks.rows, errors: total("errors") };
	return el("nav", { "aria-label": "Parts of the report" }, el("ul", {},
		parts.filter(Boolean).map(({ id }) => el("li", {}, el("a", { href: "#" + id }, names[id],
			counts[id] ? el("b", {}, " " + number(counts[id])) : null))),
		el("li", {}, el("a", { href: "#text" }, "Text"))));
}

const leakSection = (leaks) =>
	ifAny(leaks, () => section("leaks", "Leaks", "By call stack. A row unfolds.",
		leakTable("leaks-table", leaks, true)));

function renderNothing() {
	document.getElementById("report").replaceChildren(...[gate(), noteSection()].filter(Boolean));
}

function render() {
	const many = processes.length > 1, leaks = gathered("leaks"), kept = accumulating();
	const memory = outOfMemorySection(), ended = endedBy(shown()).length > 0;
	const flame = flameSection([...leaks, ...kept]);
	const parts = data.flame ? [flame] : [many && chosen < 0 ? processTable() : null,
		ended ? memory : null, timelineSection(), flame, leakSection(leaks), contextEndSection(),
		accumulatingSection(kept), growthSection(),
		errorSection(), sharedSection(), leftSection(), heldSection(), poolSection(),
			listSection("suppressed", "Suppressed"),
		listSection("cached", "Framework caches",
			"Blocks that a framework keeps to hand out again: no leaks."),
		insideSection(), fragmentationSection(), peakSection(),
		ended ? null : memory, refusedSection(), parkedSection(), objectSection(),
		rangeSection(), stepSection(), deviceSection(), noteSection()];
	const head = data.flame ? [] : [gate(), many ? processSelect() : null,
		navigation(parts, leaks), figures(), shown().length === 1 ? who(shown()[0]) : null];
	document.getElementById("report").replaceChildren(...[...head, ...parts].filter(Boolean));
	for (const part of parts)
		part?.start?.();
}

// Unfolds the folded part to which the page's address leads.
function openTarget() {
	const target = document.getElementById(location.hash.slice(1));
	if (target instanceof HTMLDetailsElement)
		target.open = true;
}

dressVerdict();
document.getElementById("text").open = false;
(processes.length ? render : renderNothing)();
addEventListener("hashchange", openTarget);
addEventListener("beforeprint", () => {
	for (const part of document.querySelectorAll("details.fold:not(#text)"))
		part.open = true;
});
openTarget();
})();
