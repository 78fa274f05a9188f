export { recordingLogger } from '../../../testkit/src/helpers/tracked-message.ts'
