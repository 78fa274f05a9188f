import './suspend-at-probe.ts'
import '../../../packages/sql/test/mysql/crash/crash-service.ts'
