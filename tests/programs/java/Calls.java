// SPDX-License-Identifier: MIT
//
// Calls of the driver through native methods (java_calls.c). Each mode of main() is one case.
import java.util.concurrent.CountDownLatch;

public final class Calls {
	static native long alloc(long bytes);
	static native void free(long block);
	static native long allocCritical(byte[] array, long bytes);
	static native void allocAndThrow(long bytes);
	static native void callBack();
	static native void attachThreads(int threads, long rounds);
	static native void keepAttaching(boolean begins);

	static volatile Object garbage;

	static long weights() {
		return alloc(1000);
	}

	static long activations() {
		return alloc(300);
	}

	static void first() {
		allocCritical(new byte[10], 600);
	}

	static void second() {
		allocCritical(new byte[10], 600);
	}

	static void calledBack() {
		alloc(700);
	}

	static void leak(int times) {
		for (int i = 0; i < times; i++) {
			weights();
			activations();
		}
	}

	// Keeps the collector busy, and allocates and frees on the device.
	static void work(int rounds) {
		for (int i = 0; i < rounds; i++) {
			long block = alloc(100);
			garbage = new byte[20000];
			if (i % 7 == 0)
				free(allocCritical(new byte[64], 200));
			free(block);
		}
	}

	static Thread[] start(int count, int rounds, CountDownLatch begun) {
		Thread[] threads = new Thread[count];
		for (int i = 0; i < count; i++) {
			boolean leaks = i < 4;
			threads[i] = new Thread(() -> {
				begun.countDown();
				work(rounds);
				if (leaks)
					leak(25);
			});
			threads[i].setDaemon(true);
			threads[i].start();
		}
		return threads;
	}

	static void load(int rounds) throws Exception {
		Thread[] threads = start(8, rounds, new CountDownLatch(8));
		attachThreads(4, rounds / 20);
		for (int i = 0; i < 5; i++)
			System.gc();
		for (Thread thread : threads)
			thread.join();
	}

	static void busy() throws Exception {
		CountDownLatch begun = new CountDownLatch(8);
		start(8, Integer.MAX_VALUE, begun);
		begun.await();
		leak(1);
		Thread.sleep(50);
	}

	static void storm() throws Exception {
		keepAttaching(true);
		Thread.sleep(20);
		leak(20);
		keepAttaching(false);
	}

	static void exception() {
		try {
			allocAndThrow(500);
		} catch (IllegalStateException e) {
			System.out.println(e.getMessage());
		}
	}

	public static void main(String[] arguments) throws Exception {
		System.load(arguments[0]);
		switch (arguments[1]) {
		case "leak": leak(3); break;
		case "load": load(Integer.parseInt(arguments[2])); break;
		case "storm": storm(); break;
		case "exit": busy(); System.exit(3); break;
		case "halt": busy(); Runtime.getRuntime().halt(4); break;
		case "exception": exception(); break;
		case "critical": weights(); first(); break;
		case "criticals": weights(); first(); second(); break;
		case "callback": callBack(); break;
		}
		System.out.println("worked");
	}
}
