import './suspend-at-probe.ts'
import '../../../packages/sql/test/postgres/crash/crash-service.ts'
