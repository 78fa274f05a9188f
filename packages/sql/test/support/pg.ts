export { default as pg } from 'pg'
