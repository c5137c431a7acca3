<?php
// SPDX-License-Identifier: MIT
// Calls the driver by FFI.
namespace Nets;

require __DIR__ . '/driver.php';

class Net {
	function weights(): int { return \Driver::alloc(1000); } // @weights
	static function activations(): int { return \Driver::alloc(300); } // @activations
	function leak(): void {
		$this->weights(); // @leak-weights
		array_map(fn($i) => self::activations(), [1]); // @leak-activations
	}
}

class AtEnd {
	function __construct(public int $block) {}
	function __destruct() { \Driver::alloc(40); } // @destructor
}

function values() {
	\Driver::alloc(500); // @generator
	yield 1;
}

\Driver::prepare();
switch ($argv[1]) {
case 'leak':
	for ($i = 0; $i < 3; $i++)
		(new Net)->leak(); // @main
	break;
case 'others':
	foreach (values() as $value); // @for
	if (PHP_VERSION_ID >= 80100)
		(new \Fiber(function () { \Driver::alloc(600); }))->start(); // @fiber
	eval("\n\\Driver::alloc(700);");
	break;
case 'ends':
	$kept = new AtEnd(\Driver::alloc(20)); // @kept
	register_shutdown_function(function () { \Driver::alloc(30); }); // @shutdown
	exit(3);
}
echo "worked\n";
