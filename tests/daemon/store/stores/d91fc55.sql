BEGIN TRANSACTION;
CREATE TABLE comparisons (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE executors (
	task_id TEXT NOT NULL, 
	job INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	launched_at DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (task_id), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "executors" VALUES('job-1.0',1,'killed',1.79534198480619859692e+09,'{"task_id":"job-1.0","job_id":"job-1","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795341984.8061986,"state":"killed","running_at":1795341984.8401437,"ended_at":1795341984.9527774,"message":"ended with its job","cost":9.771919250488282e-06,"accrued_until":1795341984.9527774,"killed_at":1795341984.9408727,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#2e11e43e');
INSERT INTO "executors" VALUES('job-2.0',2,'running',1.79534198508124470715e+09,'{"task_id":"job-2.0","job_id":"job-2","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795341985.0812447,"state":"running","running_at":1795341985.1266122,"ended_at":null,"message":"","cost":6.148640314737956e-06,"accrued_until":1795341985.265704,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#21436e4f');
INSERT INTO "executors" VALUES('job-2.1',2,'running',1.79534198508124470715e+09,'{"task_id":"job-2.1","job_id":"job-2","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20201],"launched_at":1795341985.0812447,"state":"running","running_at":1795341985.1483176,"ended_at":null,"message":"","cost":6.148640314737956e-06,"accrued_until":1795341985.265704,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#69077deb');
INSERT INTO "executors" VALUES('job-3.0',3,'running',1.79534198526570391656e+09,'{"task_id":"job-3.0","job_id":"job-3","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20202],"launched_at":1795341985.265704,"state":"running","running_at":1795341985.3035333,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795341985.265704,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#73e0379d');
INSERT INTO "executors" VALUES('job-3.1',3,'running',1.79534198526570391656e+09,'{"task_id":"job-3.1","job_id":"job-3","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20203],"launched_at":1795341985.265704,"state":"running","running_at":1795341985.3099513,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795341985.265704,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#7901eb10');
INSERT INTO "executors" VALUES('job-3.driver-2',3,'running',1.79534198526570391656e+09,'{"task_id":"job-3.driver-2","job_id":"job-3","number":null,"vm_id":"00000000-0000-4000-8000-000000000000-S1","vm_name":"vm-2","vm_type":"m1.large","address":"127.0.8.2","price_per_hour":0.24,"ports":[20400,20401,20402],"launched_at":1795341985.265704,"state":"running","running_at":1795341985.312554,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795341985.265704,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"cpus":1.0,"memory_mib":1024,"resources":{}}#83deb4e6');
CREATE TABLE explanations (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	decision TEXT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "explanations" VALUES(1,1,'place',X'7801AD924D6EC3201085AF3262ED4626711BC777E8B69B2AB2081E6A5A30163F4923CB77EFE0BA51B3ACD41D6F9879BC0F989888ACE1FBC3E3AEE287BADAD465B5AFCB7DC1DEDDA9D51D6BF2E281B3828DCE6879A58252A43A943A6837901E8D9048258F222C050E4E0107FC4499A2F301968EAE81B35D9C94482606D6BC1E0B267BA7256631B19F01D694053B5BB25E072E7D3E370BD001628FA0B40F115E9EE1A2630FDE390BCA79D09172483174BA137175FD6D14AF239293E51B23FC5B0E4DD93FD628413A4FBB433266C91590E8A24F9869A3D086FAA6B960CA23B6724C24AB0D255DB445EBFCB5B5FA44D7F9B4ABABB5EE31B8E417C2699E8BE9C6B5A5C3FF1E470913FE314F7E80DB6DB506556C5DA20F4154DF803C03DEB1955B42BBA73ACE5F54ADBCD4');
INSERT INTO "explanations" VALUES(2,2,'place',X'7801DD924D4FC3300C86FF4A947337F5631B5BFF03572E68AAB2D4A18164AEF2B13155FDEF38651BA07141E20297AAAF633BEF6367E022F0BAB8DB2CAB45B1592FE7F93A5F959B2AE3CFB86B74CBEBF4332B79C67B345A9E28A014A916A4F61AF7A47B232450C881F053A064A858C9E015640CE83C9B32DA9A1DECACC8A62FA52B114DF0BC7EDC665C76A8252431F04B19AFF38C1F2C5D90CAA8E0D8A5DB9360DAB3D00153DAF9C01EEED951878E3944CB143AA603654BB16F752BC2B9EBE746E1D40375B2C5DC08F794AC13C1CBD98A97E8E8741F8D997C7920C6E02224E620B4A1BC6124FB0EA0917D24B99893D3495BB0E84E8DD53B1AEAAA5A2FCE71071EA39B088771CC862B571AECCFED2861FC2FFA490BB84EAB31A04283919E0551BD031609F00B5B5E12DA0DD5C7EA8A3FB2BAEAFBD52DABD565A537909797F48F56B71DDF0013A850AB');
INSERT INTO "explanations" VALUES(3,3,'place',X'7801DD52CB4EC33010FC15CBE7B46AECB4B4F907AE5C5015B9CE9A189C3AF2A3A58AF2EFAC4D29A056481CE1126536BBB3333B19A908B42EEF364B5E959BF572CE56D592335ED067BB6B744BEBF432E3B4A083355A9EB0A014A216A4F6DAEE110F4648C09203E1738111AB0823F00A3206EB3CC91D6D4D0EFDAC2CF213DB958826785A3F6E0B2A3BAB252430D28F315A2F0A7AE871411AC3816397B62740B427A103A2B4F3813CDC93A30E1D71D6F644594774C06E29F6AD6E4538B37E250AA70190A92FE746B8A7241D1DBC9CA578691D7EDD4763B22E0FE831B808C97310DA60DF38A17C07D0C821226473549A710FBD75A7A6D73B3C6AC5F9EA5C77E06D74D9E1384DC578F1C570F9EFE52861FC0F7AAADB7A567C5DDDD49302B85CAB31A0426323FE16E8EADD609908BF795B30A4BA72F5195DF947A2CBCEAEA3E3BC64374FF53FA3DB4E6FF212509B');
INSERT INTO "explanations" VALUES(4,4,'wait',X'7801AD92314FC3301085FF8AE5D9AD1227A169D8D8BBB22014B9CE991A9CB8B21D4A15E5BF73765A040889A553FC9ECE77DF3D67A222D026DF6CABA2CCB775B52EEA4D5ED59CD157BB6F75479B78589594D1A3355A9ED1500A5507527B6D07D427A1033A0E844FDA59DB13651DC988552427F001720CD6F9284B228FA32762E8489EF192ECF4C37DF43979DC79861F23E45BAAC1964A8C2678DA3C3D332A0F564B8862A2D78EB4194663187DEFAFA7D32112DE8E4022A8EE44B80C8E8370DA2A47B8703E02AA3E5F1BE15E009D881E01530539088F09A46D950360B8FA00D04147711B2FADC3DB0B3EAEE6019354C27888D106A10D369A668C00AFB6B1096DB27576D13DF4D69DDB5EEFF1ED38AFEB8BEFC0DBD1A594A67966530A26D2F07F7979E22D6EC95BFCCD5B1577D73D7EF2C647FE8ABB35A0426B47FC3BB17A096049EBFBF28BF3ABCDFC09EC39E9EA');
CREATE TABLE facts (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "facts" VALUES('schema','5');
INSERT INTO "facts" VALUES('made_at','');
INSERT INTO "facts" VALUES('lease','');
INSERT INTO "facts" VALUES('term','1');
INSERT INTO "facts" VALUES('leader','http://127.0.0.1:7360');
INSERT INTO "facts" VALUES('clock','{"boot": "53542483-8751-4eb7-a81f-d1f3acd98660", "offset": 1795306048.830638}');
INSERT INTO "facts" VALUES('framework_id','00000000-0000-4000-8000-000000000000-0000');
INSERT INTO "facts" VALUES('probe','b074b80d029d8e9e');
CREATE TABLE jobs (
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	cost DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	spec TEXT, 
	accepted_at DOUBLE, 
	idempotency_key TEXT, 
	finished_at DOUBLE, 
	size INTEGER, 
	owner TEXT DEFAULT '' NOT NULL, 
	queue TEXT DEFAULT 'default' NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES(1,'killed',9.77191925048828203062e-06,'{"job":{"id":"job-1","type":"unknown","executors":1,"submitted_at":1795341984.7961903,"name":"over","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"killed","reason":"killed on request","placed_at":1795341984.8061986,"started_at":1795341984.8401437,"finished_at":1795341984.9408727,"exit_code":null,"next_executor":1,"losses":0,"failures":0,"cost":9.771919250488282e-06,"driver_on":"8fab638d26deb27f@recorded","aborting":false,"retried":0,"wanted":[],"capped":""}#ba535d58','{"app":"/apps/sort.py","name":"over","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"retries":0,"max_runtime":null}#42abe875',1.79534198479619026183e+09,'over',1.79534198494087266929e+09,NULL,'','default');
INSERT INTO "jobs" VALUES(2,'running',1.22972806294759113014e-05,'{"job":{"id":"job-2","type":"sort","executors":2,"submitted_at":1795341985.062767,"name":"here","expected_duration":1011.6666666666666,"prefers":"spread","driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"its driver runs","placed_at":1795341985.0812447,"started_at":1795341985.1483176,"finished_at":null,"exit_code":null,"next_executor":2,"losses":0,"failures":0,"cost":1.2297280629475911e-05,"driver_on":"8fab638d26deb27f@recorded","aborting":false,"retried":0,"wanted":[],"capped":""}#99a5e784','{"app":"/apps/sort.py","name":"here","type":"sort","owner":"","queue":"default","executors":2,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"retries":0,"max_runtime":null}#d9e80f95',1.79534198506276702878e+09,'here',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(3,'running',0.0,'{"job":{"id":"job-3","type":"unknown","executors":2,"submitted_at":1795341985.247381,"name":"there","expected_duration":null,"prefers":null,"driver":{"cpus":1.0,"memory_mib":1024},"min_executors":1,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"all its executors run","placed_at":1795341985.265704,"started_at":1795341985.3099513,"finished_at":null,"exit_code":null,"next_executor":3,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#747af8df','{"app":"/apps/sort.py","name":"there","type":"unknown","owner":"","queue":"default","executors":2,"min_executors":1,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":{"on":"cluster","cpus":1.0,"memory":1024},"spark":null,"retries":0,"max_runtime":null}#b2a07f86',1.79534198524738097197e+09,'there',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(4,'queued',0.0,'{"job":{"id":"job-4","type":"unknown","executors":1,"submitted_at":1795341985.3815787,"name":"large","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"cpus":4.0,"memory_mib":1024,"resources":{}},"state":"queued","reason":"room for 0 of 1 executors of 4 cpus and 1024 MiB; of 2 VMs, 2 lack cpus","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#9286c757','{"app":"/apps/sort.py","name":"large","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":4.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"retries":0,"max_runtime":null}#3de612f5',1.79534198538157868381e+09,'large',NULL,NULL,'','default');
INSERT INTO "jobs" VALUES(5,'queued',0.0,'{"job":{"id":"job-5","type":"unknown","executors":1,"submitted_at":1795341985.3882184,"name":"small","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","dynamic":null,"retries":0,"cpus":0.5,"memory_mib":1024,"resources":{}},"state":"queued","reason":"waits for its turn","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"wanted":[],"capped":""}#11b70664','{"app":"/apps/sort.py","name":"small","type":"unknown","owner":"","queue":"default","executors":1,"min_executors":null,"cpus":0.5,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"retries":0,"max_runtime":null}#b1a6f8b1',1.79534198538821840283e+09,'small',NULL,NULL,'','default');
CREATE TABLE quarantine (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	body BLOB NOT NULL, 
	why TEXT NOT NULL, 
	found_at DOUBLE NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE sums (
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	cost DOUBLE NOT NULL, 
	size INTEGER NOT NULL, 
	PRIMARY KEY (name, state)
);
INSERT INTO "sums" VALUES('jobs','queued',2,0.0,0);
INSERT INTO "sums" VALUES('jobs','placing',0,0.0,0);
INSERT INTO "sums" VALUES('executors','launching',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','starting',0,0.0,0);
INSERT INTO "sums" VALUES('executors','starting',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','running',2,1.22972806294759113014e-05,0);
INSERT INTO "sums" VALUES('executors','running',5,0.0,0);
INSERT INTO "sums" VALUES('jobs','killed',1,9.77191925048828203062e-06,0);
INSERT INTO "sums" VALUES('executors','killed',1,0.0,0);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_unmeasured ON jobs (finished_at) WHERE finished_at IS NOT NULL AND size IS NULL;
CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue);
CREATE INDEX jobs_by_queue ON jobs (queue, state, number);
CREATE INDEX ix_executors_job ON executors (job);
CREATE INDEX ix_executors_state ON executors (state);
CREATE INDEX explanations_by_job ON explanations (job, decision);
CREATE INDEX comparisons_by_job ON comparisons (job);
CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END;
CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END;
COMMIT;
