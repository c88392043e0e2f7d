import { defineConfig } from 'vitest/config';

// One world, one promise at a time: what one of them breaks would confuse another.
export default defineConfig({ test: { include: ['test/**/*.test.ts'], testTimeout: 90_000, fileParallelism: false } });
