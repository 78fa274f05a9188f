// @ts-check

/**
 * The variable that makes the `start…` functions run a server from an unpacked system instead of the machine's own.
 *
 * @param {string} kind such as `postgres`
 */
export function rootVariable(kind) {
  return `ACKORD_${kind.toUpperCase()}_ROOT`
}

/**
 * @param {string} kind
 * @returns {string} the directory of the unpacked system; empty for the machine's own server
 */
export function foreignRoot(kind) {
  return process.env[rootVariable(kind)] ?? ''
}

/**
 * @typedef {object} Command
 * @property {string} file
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} env
 */

/**
 * The command that runs another one in an unpacked system: below its top directory, under the account, in the working
 * directory. Paths below the top directory are made relative to it. Every program in the chain replaces itself with the next one,
 * so the process keeps its pid.
 *
 * @param {string} root
 * @param {string} directory
 * @param {import('../account.mjs').Account | undefined} account
 * @param {Command} command
 * @returns {Command}
 */
export function insideRoot(root, directory, account, { file, args, env }) {
  const inside = (/** @type {string} */ text) => text.replaceAll(root, '')
  const user = account === undefined ? [] : [`--userspec=${account.uid}:${account.gid}`]
  const enter = ['/bin/sh', '-c', 'cd "$0" && exec "$@"', inside(directory)]
  return {
    file: 'chroot',
    args: [...user, root, ...enter, inside(file), ...args.map(inside)],
    env: {
      ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, inside(value)])),
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    },
  }
}
