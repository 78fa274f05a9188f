// @ts-check
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where Debian's package `debian-archive-keyring` installs all keys of the archive. */
const keyrings = ['/usr/share/keyrings/debian-archive-keyring.pgp', '/usr/share/keyrings/debian-archive-keyring.gpg']

/**
 * apt for another suite of the machine's own mirror. Lists, packages and the database of installed packages are in
 * `directory`, so the machine's apt and dpkg are neither read nor changed. Signatures are verified with the keys of the
 * Debian archive.
 */
export class PrivateApt {
  #directory
  #suite
  /** @type {Promise<void> | undefined} */
  #updated

  /**
   * @param {string} directory
   * @param {string} suite such as `trixie`
   */
  constructor(directory, suite) {
    this.#directory = directory
    this.#suite = suite
  }

  /**
   * Downloads packages with everything they depend on.
   *
   * @param {readonly string[]} packages
   * @returns {Promise<string[]>} paths of the packages
   */
  async download(packages) {
    this.#updated ??= this.#update()
    await this.#updated
    const install = ['install', '--yes', '--no-install-recommends', '--', ...packages]
    // apt does not print files that it has already downloaded, so it is given an empty directory.
    const uris = await this.#apt(['-o', `Dir::Cache::archives=${join(this.#directory, 'none')}`, '--print-uris', ...install])
    const archives = archivesOf(uris).map((name) => join(this.#directory, 'cache/archives', name))
    // The file names contain the version, and apt stores a file there only after verifying it.
    if (!archives.every((path) => existsSync(path))) await this.#apt(['--download-only', ...install])
    return archives
  }

  async #update() {
    const keyring = keyrings.find((file) => existsSync(file))
    if (keyring === undefined) throw new Error('no keys to verify the packages with: install debian-archive-keyring')
    const own = (/** @type {string} */ path) => join(this.#directory, path)
    for (const path of ['state/lists/partial', 'cache/archives/partial', 'parts']) mkdirSync(own(path), { recursive: true })
    const mirror = await machineMirror()
    writeFileSync(own('status'), '')
    writeFileSync(own('debian.sources'), `Types: deb\nURIs: ${mirror}\nSuites: ${this.#suite}\nComponents: main\nSigned-By: ${keyring}\n`)
    // Copies only the download settings of the machine: its hooks would change its own directories.
    const acquire = (await run('apt-config', ['dump'])).split('\n').filter((line) => line.startsWith('Acquire::'))
    const settings = [
      ...acquire,
      `Dir::Etc::main "${own('none')}";`,
      `Dir::Etc::parts "${own('parts')}";`,
      `Dir::Etc::sourcelist "${own('debian.sources')}";`,
      `Dir::Etc::sourceparts "${own('parts')}";`,
      `Dir::Etc::preferences "${own('none')}";`,
      `Dir::Etc::preferencesparts "${own('parts')}";`,
      `Dir::State "${own('state')}";`,
      `Dir::State::status "${own('status')}";`,
      `Dir::Cache "${own('cache')}";`,
      'Acquire::Languages "none";',
      // The account that apt downloads with may lack access to the directory.
      'APT::Sandbox::User "root";',
    ]
    writeFileSync(own('apt.conf'), `${settings.join('\n')}\n`, { mode: 0o600 })
    await this.#apt(['update', '--error-on=any'])
  }

  /** @param {readonly string[]} args */
  async #apt(args) {
    return await run('apt-get', ['--quiet', '--quiet', ...args], { APT_CONFIG: join(this.#directory, 'apt.conf') })
  }
}

/**
 * The mirror that the machine's own apt uses for its release.
 *
 * @returns {Promise<string>}
 */
async function machineMirror() {
  const codename = /^VERSION_CODENAME=(\S+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1]
  const targets = await run('apt-get', ['indextargets', '--format', '$(RELEASE) $(COMPONENT) $(REPO_URI)', 'Created-By: Packages'])
  const mirror = mirrorOf(targets, codename ?? '')
  if (mirror === undefined) throw new Error(`apt has no source for the suite "${codename}" of Debian`)
  return mirror
}

/**
 * @param {string} targets lines with release, component and address
 * @param {string} codename
 * @returns {string | undefined}
 */
export function mirrorOf(targets, codename) {
  for (const line of targets.split('\n')) {
    const [release, component, uri] = line.trim().split(' ')
    if (release === codename && component === 'main' && uri !== undefined) return uri
  }
  return undefined
}

/**
 * @param {string} uris as `--print-uris` prints them: the quoted address, the name of the file, its size and checksum
 * @returns {string[]} the names of the files
 */
export function archivesOf(uris) {
  return Array.from(uris.matchAll(/^'[^']*' (\S+\.deb) \d+ \S*$/gm), ([, name]) => String(name))
}

/**
 * @param {string} file
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, string>>} [environment]
 * @returns {Promise<string>} its output
 */
function run(file, args, environment = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    let errors = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', (text) => {
      errors += text
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) return resolve(output)
      const lines = errors.split('\n').filter((line) => /^[EW]: /.test(line))
      reject(new Error(`${file} ${args.join(' ')} failed: ${lines.join(' ') || errors.trim() || `exit code ${code}`}`))
    })
  })
}
