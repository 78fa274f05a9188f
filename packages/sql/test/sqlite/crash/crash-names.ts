/** Constants shared by the service and the test. */
export const consumer = 'orders'
export const batchSize = 5
