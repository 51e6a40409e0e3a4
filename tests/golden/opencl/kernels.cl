#pragma OPENCL FP_CONTRACT OFF

static float2 fb_max_f32x2(float2 a, float2 b) {
    float2 c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c.s0) : "f"(a.s0), "f"(b.s0));
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c.s1) : "f"(a.s1), "f"(b.s1));
    return c;
}

static float fb_max_f32(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

static float fb_exp_f32(float x) {
    const float v1 = -104.0f > x ? -104.0f : x;
    const float v2 = 89.0f < v1 ? 89.0f : v1;
    const float v3 = fma(v2, 1.442695f, 1.2582912e+07f);
    const float v4 = v3 - 1.2582912e+07f;
    const uint v5 = as_uint(v3) - 0x4b400000u;
    const float v6 = fma(v4, 1.9046542e-09f, fma(v4, -0.6931472f, v2));
    const float v7 = v6 * v6;
    const float v8 = fma(fma(0.008369332f, v6, 0.0416692f), v7, fma(0.16666515f, v6, 0.4999999f));
    const uint v9 = (uint)((int)v5 >> 1);
    const float v10 = (fma(v6 * v6, fma(0.0013758686f, v7 * v7, v8), v6) + 1.0f) * as_float((v9 + 127u) << 23);
    return v10 * as_float((v5 - v9 + 127u) << 23);
}

// reduce_max, sub, exp, reduce_sum, div
// input.mlir:4
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void loops_0(
    const __global uchar *a0_object, ulong a0_offset,
    __global uchar *a1_object, ulong a1_offset
) {
    __local float shared[32] __attribute__((aligned(16)));
    __local float shared2[32] __attribute__((aligned(16)));
    const __global float *const a0 = (const __global float *)(a0_object + a0_offset);
    __global float *const a1 = (__global float *)(a1_object + a1_offset);
    const int group = (int)get_group_id(0);
    const int item = (int)get_local_id(0);
    const int v1 = item >> 4;
    const int v2 = item & 15;
    const int v3 = v1 * 16;
    const int v4 = (group * 2 + v1) * 64 + v2 * 4;
    const float4 v5 = *(const __global float4 *)(a0 + v4);
    const float2 v6 = fb_max_f32x2(v5.s01, v5.s23);  // input.mlir:4
    const int v7 = v3 + v2;
    shared[v7] = fb_max_f32(v6.s0, v6.s1);
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool v8 = v2 < 4;
    const int v9 = v7 + 4;
    const int v10 = v7 + 8;
    const int v11 = v7 + 12;
    if (v8) {
        const float v12 = shared[v7];
        const float v13 = shared[v9];
        const float v14 = shared[v10];
        const float v15 = shared[v11];
        shared2[v7] = fb_max_f32(fb_max_f32(v12, v14), fb_max_f32(v13, v15));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float4 v16 = *(__local float4 *)(shared2 + v3);
    const float v17 = fb_max_f32(fb_max_f32(v16.s0, v16.s2), fb_max_f32(v16.s1, v16.s3));
    const float4 v18 = v5 - (float4)(v17);
    const float4 v19 = (float4)(fb_exp_f32(v18.s0), fb_exp_f32(v18.s1), fb_exp_f32(v18.s2), fb_exp_f32(v18.s3));
    const float2 v20 = v19.s01 + v19.s23;
    shared[v7] = v20.s0 + v20.s1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v8) {
        const float v21 = shared[v7];
        const float v22 = shared[v9];
        const float v23 = shared[v10];
        const float v24 = shared[v11];
        shared2[v7] = v21 + v23 + (v22 + v24);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float4 v25 = *(__local float4 *)(shared2 + v3);
    *(__global float4 *)(a1 + v4) = v19 / (float4)(v25.s0 + v25.s2 + (v25.s1 + v25.s3));
}
