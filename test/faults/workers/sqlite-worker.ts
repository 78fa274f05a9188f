import './suspend-at-probe.ts'
import '../../../packages/sql/test/sqlite/crash/crash-service.ts'
