// By path: the testkit depends on this package, and by its name all of it would load with every test.
export { settlePromises, VirtualRuntime } from '../../../testkit/src/helpers/virtual-runtime.ts'
