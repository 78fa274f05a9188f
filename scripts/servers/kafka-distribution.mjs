// @ts-check
import { execFile } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

const oldestJava = 17
const javaVersionTimeout = 30_000

/**
 * An unpacked Kafka, and the Java that runs it.
 *
 * @typedef {object} KafkaDistribution
 * @property {string} home
 * @property {string} format the script that formats the storage
 * @property {string} start the script that starts the broker
 * @property {Readonly<Record<string, string>>} environment for both scripts
 */

/**
 * The directory of the Kafka distribution that the environment names.
 *
 * @param {NodeJS.ProcessEnv} [environment] Default: that of this process.
 * @returns {string | undefined}
 */
export function kafkaHome(environment = process.env) {
  const { KAFKA_HOME } = environment
  return KAFKA_HOME === undefined || KAFKA_HOME === '' ? undefined : resolve(KAFKA_HOME)
}

/**
 * Finds the scripts and Java. Starts nothing but `java -version`.
 *
 * @param {NodeJS.ProcessEnv} [environment] Default: that of this process.
 * @returns {Promise<KafkaDistribution>} rejects with what is missing and what to do about it
 */
export async function findKafkaDistribution(environment = process.env) {
  const home = kafkaHome(environment)
  if (home === undefined) throw new Error('KAFKA_HOME is not set: set it to the directory of an unpacked Kafka, 3.3 or newer')
  const format = requireScript(home, 'kafka-storage.sh')
  const start = requireScript(home, 'kafka-server-start.sh')
  await requireJava(environment)
  const { JAVA_HOME } = environment
  return { home, format, start, environment: JAVA_HOME === undefined || JAVA_HOME === '' ? {} : { JAVA_HOME: resolve(JAVA_HOME) } }
}

/**
 * Whether every account can read a directory. A distribution in root's own directory can be run by root only.
 *
 * @param {string} directory
 * @returns {boolean}
 */
export function isReadableByAll(directory) {
  if ((statSync(directory).mode & 0o005) !== 0o005) return false
  return directory === dirname(directory) || isPassableByAll(dirname(directory))
}

/** @param {string} directory @returns {boolean} */
function isPassableByAll(directory) {
  if ((statSync(directory).mode & 0o001) === 0) return false
  return directory === dirname(directory) || isPassableByAll(dirname(directory))
}

/** @param {string} home @param {string} name */
function requireScript(home, name) {
  const script = join(home, 'bin', name)
  if (isExecutable(script)) return script
  const advice = 'it must be the directory of an unpacked Kafka, 3.3 or newer'
  throw new Error(`KAFKA_HOME is ${home}, where bin/${name} is missing or not executable: ${advice}`)
}

/** Checks the Java that Kafka's scripts will use. @param {NodeJS.ProcessEnv} environment */
async function requireJava(environment) {
  const java = locateJava(environment)
  const version = await javaVersion(java)
  if (version < oldestJava) {
    throw new Error(`Kafka needs Java ${oldestJava} or newer, and ${java} is version ${version}: set JAVA_HOME to a newer one`)
  }
}

/** As Kafka's scripts find it. @param {NodeJS.ProcessEnv} environment */
function locateJava({ JAVA_HOME, PATH = '' }) {
  const needed = `Kafka needs Java ${oldestJava} or newer`
  if (JAVA_HOME !== undefined && JAVA_HOME !== '') {
    const java = join(resolve(JAVA_HOME), 'bin', 'java')
    if (isExecutable(java)) return java
    throw new Error(`${needed}, and JAVA_HOME is ${JAVA_HOME}, where bin/java is missing or not executable`)
  }
  const directories = PATH.split(delimiter).filter((directory) => directory !== '')
  const java = directories.map((directory) => join(directory, 'java')).find(isExecutable)
  if (java !== undefined) return java
  const advice = `install openjdk-${oldestJava}-jre-headless (its name in Debian) or set JAVA_HOME`
  throw new Error(`${needed}, and there is no java in the PATH: ${advice}`)
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** @param {string} java @returns {Promise<number>} */
async function javaVersion(java) {
  const { stdout, stderr } = await promisify(execFile)(java, ['-version'], { timeout: javaVersionTimeout }).catch((error) => {
    throw new Error(`Kafka needs Java ${oldestJava} or newer, and '${java} -version' failed: ${error.message}`, { cause: error })
  })
  // 1.8.0_402 is Java 8; 17.0.15 is Java 17.
  const [, major, minor] = /version "(\d+)(?:\.(\d+))?/.exec(`${stderr}${stdout}`) ?? []
  if (major === undefined) throw new Error(`Kafka needs Java ${oldestJava} or newer, and '${java} -version' did not print a version`)
  return Number(major === '1' ? minor : major)
}
