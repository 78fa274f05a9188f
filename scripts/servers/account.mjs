// @ts-check
import { readFileSync } from 'node:fs'

/** @typedef {{ uid: number, gid: number }} Account */

/**
 * PostgreSQL and MariaDB refuse to run as root, and the others had better not. Node sets the ids between fork and exec,
 * which needs no setpriv or su and leaves the server with the pid that we know.
 *
 * @param {string[]} preferred names to look for before `nobody`
 * @returns {Account | undefined} `undefined`: we are not root, run it as ourselves
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
