export type { MariadbPool } from './from-mariadb.ts'
export { fromMariadb } from './from-mariadb.ts'
export type { Mysql2Pool } from './from-mysql2.ts'
export { fromMysql2 } from './from-mysql2.ts'
