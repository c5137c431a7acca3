// truth: out of memory at @wanted, most held at @held
// nvcc: -lcublas
// A program with cuBLAS that keeps the matrices of every step.
#include <cublas_v2.h>
#include <cstdio>
#include <vector>

enum { N = 8192, STEPS = 10000 };

static float *matrix()
{
	float *at = nullptr;

	if (cudaMalloc(&at, sizeof(float) * N * N) != cudaSuccess) /* @wanted @held */
		return nullptr;
	cudaMemset(at, 0, sizeof(float) * N * N);
	return at;
}

int main()
{
	float *a = matrix(), *b = matrix(), one = 1, zero = 0;
	std::vector<float *> results;
	cublasHandle_t blas;

	if (!a || !b || cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS)
		return 2;
	for (int i = 0; i < STEPS; i++) {
		float *c = matrix();

		if (!c) {
			fprintf(stderr, "no memory at step %d\n", i);
			return 1;
		}
		cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, a, N, b, N, &zero, c, N);
		results.push_back(c);
	}
	return 0;
}
