// @ts-check
import { readFileSync } from 'node:fs'

/** @typedef {{ uid: number, gid: number }} Account */

/**
 * PostgreSQL and MariaDB refuse to run as root, and the other servers should not either. Node sets the ids between fork and exec,
 * which needs no setpriv or su and keeps the pid of the server known.
 *
 * @param {string[]} preferred names to look for before `nobody`
 * @returns {Account | undefined} `undefined` if this process is not root: run the server under the same account
 */
export function unprivilegedAccount(...preferred) {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  for (const name of [...preferred, 'nobody']) {
    const user = users.find(([login]) => login === name)
    if (user !== undefined) return { uid: Number(user[2]), gid: Number(user[3]) }
  }
  throw new Error(`no account to run a server under: looked for ${[...preferred, 'nobody'].join(', ')}`)
}
