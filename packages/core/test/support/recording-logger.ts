export { recordingLogger } from '../../../testkit/src/recording-logger.ts'
