import './suspend-at-probe.ts'
import '../../../packages/redis/test/support/crash-service.ts'
