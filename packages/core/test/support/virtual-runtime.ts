// Imported by path: the testkit depends on this package, and its package name would load all of it with every test.
export { settlePromises, VirtualRuntime } from '../../../testkit/src/helpers/virtual-runtime.ts'
